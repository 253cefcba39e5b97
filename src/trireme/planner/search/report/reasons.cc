#include "trireme/planner/search/report/reasons.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "trireme/planner/search/report/choices.h"

namespace trireme::planner {
namespace {

double gib(double bytes) { return bytes / (1 << 30); }

// How much longer, as people say it.
std::string longer(double ratio) {
  const double percent = 100 * (ratio - 1);
  if (percent > 150) return fmt::format("takes {:.1f} times as long", ratio);
  if (percent >= 10) return fmt::format("takes {:.0f} % longer", percent);
  if (percent >= 0.1) return fmt::format("takes {:.1f} % longer", percent);
  if (percent > -0.1) return "takes as long";
  // Of what takes nearly as long as the best, the search takes the simplest.
  return fmt::format("takes {:.1f} % less, for more that can go wrong", -percent);
}

class Reasons {
 public:
  Reasons(const Answer& answer, const Screened& screened)
      : answer_(answer),
        question_(answer.question),
        screened_(screened),
        option_(answer.options.front()),
        layout_(option_.layout) {}

  std::vector<Reason> run() {
    for (const ChoiceRow& row : choice_rows()) explain(row);
    return std::move(reasons_);
  }

 private:
  void say(Choice choice, const std::string& text) { reasons_.push_back({choice, text}); }

  bool kept(const ChoiceRow& row) const {
    return !row.key.empty() && std::ranges::any_of(question_.kept, [&](const std::string& kept) {
      return row.key.ends_with('.') ? kept.starts_with(row.key) : kept == row.key;
    });
  }

  void explain(const ChoiceRow& row) {
    if (!row.open(layout_)) return;
    if (row.choice == Choice::kDp) return data_parallel();
    const std::string head =
        row.heading ? row.heading(layout_) : fmt::format("{} {}", row.name, row.value(layout_));
    if (kept(row)) return say(row.choice, head + ": kept, as the job has it");
    std::string text;
    for (const Layout& neighbour : row.around(layout_, {question_, screened_.screen()})) {
      if (row.value(neighbour) == row.value(layout_)) continue;
      const std::string part = compare(row, neighbour);
      if (!part.empty()) text += (text.empty() ? ": " : "; ") + part;
    }
    text += place(row.choice, text.empty());
    if (text.empty()) text = ": nothing else divides what it shares out";
    say(row.choice, head + text);
  }

  // What the place in the machine says of the choice.
  std::string place(Choice choice, bool first) const {
    if (choice != Choice::kTp || layout_.tp == 1) return "";
    const Cluster& cluster = question_.cluster;
    const auto tier = std::ranges::find_if(cluster.tiers, [&](const NetworkTier& one) {
      return one.span == 0 || one.span % layout_.tp == 0;
    });
    if (tier == cluster.tiers.end() || tier->span == 0) return "";
    return fmt::format("{} it stays inside the {} of {}", first ? ":" : ";", tier->name,
                       devices(cluster, tier->span));
  }

  void data_parallel() {
    const auto m = screened_.screen().micro_batches(layout_);
    say(Choice::kDp, fmt::format("dp {}: all {} divided by pp {} x cp {} x tp {}; each rank "
                                 "has {} micro-batch{} a step{}",
                                 layout_.dp(), devices(question_.cluster, layout_.world()),
                                 layout_.pp, layout_.cp, layout_.tp, m, m == 1 ? "" : "es",
                                 layout_.pp > 1 ? fmt::format(", {:.1f} times pp",
                                                              static_cast<double>(m) / layout_.pp)
                                                : ""));
  }

  // "4 needs 101.3 GiB of 79.1; the best with it (pp 16, ...) takes 6 % longer".
  std::string compare(const ChoiceRow& row, const Layout& twin) {
    const std::string other = row.value(twin);
    const std::int64_t batch = question_.job.run.global_batch;
    const bool divides = batch % (std::int64_t{twin.micro_batch} * twin.dp()) == 0;
    const std::string why = divides ? refusal_of(question_, twin) : "";
    std::string text;
    if (divides && why.empty()) {
      const double bytes = screened_.screen().price(twin).bytes, limit = screened_.limit();
      if (bytes > limit)
        text = fmt::format("{} needs {:.3g} GiB of usable {:.3g}", other, gib(bytes), gib(limit));
      if (bytes > limit && row.choice == Choice::kAway) return text;
    }
    const std::optional<Priced> best =
        screened_.least([&](const Layout& one) { return row.same(one, twin); });
    if (!best && !why.empty()) return fmt::format("{} is not possible ({})", other, why);
    if (!best) return text.empty() ? text : text + ", and so does every layout with it";
    double ratio = best->estimate / option_.estimate;
    if (ratio < 1) {  // the plan has the last word
      const std::optional<Option> proven = compiled(question_, *best);
      if (!proven) return other + " does not fit once its plan is counted";
      ratio = proven->seconds / option_.seconds;
    }
    const std::string with = differences(best->layout, row.choice);
    if (!text.empty())
      return fmt::format("{}, and the best with it{} {}", text, with, longer(ratio));
    return fmt::format("{}{} {}", other, with, longer(ratio));
  }

  // " (pp 16, recompute whole blocks)": what else is different in the best layout with a choice.
  std::string differences(const Layout& other, Choice choice) const {
    std::string text;
    for (const ChoiceRow& row : choice_rows()) {
      if (row.label == nullptr || row.choice == choice) continue;
      const std::string own = row.value(other);
      const bool staged = row.choice != Choice::kSchedule || other.pp > 1;
      if (own == row.value(layout_) || !staged) continue;
      const std::string_view label = row.label;
      text +=
          fmt::format("{}{}{}{}", text.empty() ? "" : ", ", label, label.empty() ? "" : " ", own);
    }
    return text.empty() ? "" : fmt::format(" (with {})", text);
  }

  const Answer& answer_;
  const Question& question_;
  const Screened& screened_;
  const Option& option_;
  const Layout& layout_;
  std::vector<Reason> reasons_;
};

// The same question with something changed.
std::vector<std::pair<std::string, Question>> changed(const Question& question) {
  std::vector<std::pair<std::string, Question>> all;
  Question memory = question;
  memory.cluster.gpu.memory += memory.cluster.gpu.memory / 10;
  all.emplace_back("10 % more memory", memory);
  bool between = false;
  Question network = question;
  for (NetworkTier& tier : network.cluster.tiers)
    if (tier.span == 0 || tier.span > question.cluster.gpus_per_host) {
      tier.rate /= 2;
      between = true;
    }
  if (between && question.gpus > question.cluster.gpus_per_host)
    all.emplace_back("half the network between hosts", network);
  for (const bool twice : {true, false}) {
    Question batch = question;
    std::int64_t& samples = batch.job.run.global_batch;
    if (!twice && samples % 2 != 0) continue;
    samples = twice ? 2 * samples : samples / 2;
    all.emplace_back(twice ? "twice the batch" : "half the batch", batch);
  }
  return all;
}

}  // namespace

std::vector<Reason> reasons(const Answer& answer, const Screened& screened) {
  return Reasons(answer, screened).run();
}

std::vector<Change> changes(const Answer& answer, const Screened& now) {
  constexpr double kTelling = 1.01;  // less is nothing to change a layout for
  constexpr int kEstimated = 8;
  std::vector<Change> changes;
  const Option& option = answer.options.front();
  const Layout& chosen = option.layout;
  const std::optional<Priced> own = now.estimated(chosen);
  // Estimates are compared with estimates, and shown in proportion to the simulation of the choice.
  const double told = own ? option.seconds / own->estimate : 1;
  for (const auto& [what, question] : changed(answer.question)) {
    const Screened then(question, chosen.away);
    const std::vector<Priced> best = then.best(kEstimated);
    if (best.empty()) {
      changes.push_back({.what = what, .best = chosen, .seconds = 0, .alters = true});
      continue;
    }
    const auto fits = [](const Screened& screened) {
      return [&screened](const Priced& one) { return one.price.bytes <= screened.limit(); };
    };
    const auto fitting = std::ranges::find_if(best, fits(then));
    const Priced& first = fitting == best.end() ? best.front() : *fitting;
    const bool divides =
        question.job.run.global_batch % (std::int64_t{chosen.micro_batch} * chosen.dp()) == 0;
    const std::optional<Priced> same = divides ? then.estimated(chosen) : std::nullopt;
    // Layouts that were ahead by the estimate before, and were not chosen, must be further ahead now.
    double ahead = 1;
    if (const auto before = now.estimated(first.layout); own && before && fits(now)(*before))
      ahead = std::max(ahead, own->estimate / before->estimate);
    const double kept = same ? same->estimate : 0;
    const bool alters = !same || kept > kTelling * ahead * first.estimate;
    changes.push_back({.what = what,
                       .best = alters ? first.layout : chosen,
                       .seconds = told * (alters ? ahead * first.estimate : kept),
                       .alters = alters});
  }
  return changes;
}

}  // namespace trireme::planner
