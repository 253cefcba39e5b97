#include "trireme/planner/report/reasons.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "trireme/plan/schedules/info.h"

namespace trireme::planner {
namespace {

using schedules::Schedule;

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
  Reasons(const Answer& answer, const Sieved& sieved)
      : answer_(answer),
        question_(answer.question),
        sieved_(sieved),
        option_(answer.options.front()),
        layout_(option_.layout) {}

  std::vector<Reason> run() {
    for (int choice = 0; choice < kChoices; ++choice) explain(static_cast<Choice>(choice));
    return std::move(reasons_);
  }

 private:
  void say(Choice choice, const std::string& text) { reasons_.push_back({choice, text}); }

  bool kept(Choice choice) const {
    constexpr std::string_view kKeys[] = {"parallel.tp",
                                          "parallel.pp",
                                          "parallel.cp",
                                          "",
                                          "parallel.dp_shard",
                                          "parallel.zero",
                                          "parallel.sequence_parallel",
                                          "parallel.schedule",
                                          "run.micro_batch",
                                          "recompute.",
                                          "offload."};
    const std::string_view key = kKeys[static_cast<int>(choice)];
    return !key.empty() && std::ranges::any_of(question_.kept, [&](const std::string& kept) {
      return key.ends_with('.') ? kept.starts_with(key) : kept == key;
    });
  }

  void explain(Choice choice) {
    switch (choice) {
      case Choice::kDp: return data_parallel();
      case Choice::kShards:
        if (layout_.zero == 0 || layout_.dp() == 1) return;
        break;
      case Choice::kZero:
        if (layout_.dp() * layout_.cp == 1) return;
        break;
      case Choice::kSequence:
        if (layout_.tp == 1) return;
        break;
      case Choice::kSchedule:
        if (layout_.pp == 1) return;
        break;
      case Choice::kAway:
        if (layout_.away == Away::kNothing) return;
        break;
      default: break;
    }
    const std::string head = heading(choice);
    if (kept(choice)) return say(choice, head + ": kept, as the job has it");
    std::string text;
    for (const Layout& neighbour : neighbours(choice)) {
      const std::string part = compare(choice, neighbour);
      if (!part.empty()) text += (text.empty() ? ": " : "; ") + part;
    }
    text += place(choice, text.empty());
    if (text.empty()) text = ": nothing else divides what it shares out";
    say(choice, head + text);
  }

  std::string heading(Choice choice) const {
    switch (choice) {
      case Choice::kShards:
        return layout_.dp_replicate > 1
                   ? fmt::format("shards over {} of {} data-parallel ranks", layout_.dp_shard,
                                 layout_.dp())
                   : fmt::format("shards over all {} data-parallel ranks", layout_.dp());
      case Choice::kZero: return value(layout_, choice);
      case Choice::kSequence: return "sequence parallelism " + value(layout_, choice);
      case Choice::kSchedule: return value(layout_, choice);
      case Choice::kMicroBatch: return "micro-batch " + value(layout_, choice);
      case Choice::kAgain: return "recompute " + value(layout_, choice);
      case Choice::kAway: return "in host memory " + value(layout_, choice);
      default: return fmt::format("{} {}", name(choice), value(layout_, choice));
    }
  }

  // What the place in the machine says of the choice.
  std::string place(Choice choice, bool first) const {
    if (choice != Choice::kTp || layout_.tp == 1) return "";
    const Cluster& cluster = question_.cluster;
    const auto tier = std::ranges::find_if(cluster.tiers, [&](const Tier& one) {
      return one.span == 0 || one.span % layout_.tp == 0;
    });
    if (tier == cluster.tiers.end() || tier->span == 0) return "";
    return fmt::format("{} it stays inside the {} of {} GPUs", first ? ":" : ";", tier->name,
                       tier->span);
  }

  void data_parallel() {
    if (layout_.dp() == 1) return;
    const auto m = sieved_.sieve().micro_batches(layout_);
    say(Choice::kDp,
        fmt::format("dp {}: what {} GPUs leave beside pp {} x cp {} x tp {}; each rank has {} "
                    "micro-batch{} a step{}",
                    layout_.dp(), layout_.world(), layout_.pp, layout_.cp, layout_.tp, m,
                    m == 1 ? "" : "es",
                    layout_.pp > 1
                        ? fmt::format(", {:.1f} times pp", static_cast<double>(m) / layout_.pp)
                        : ""));
  }

  // The layout with another value of one choice, dp taking what ranks there are.
  std::vector<Layout> neighbours(Choice choice) const {
    std::vector<Layout> near;
    const auto offer = [&](Layout layout) {
      if (value(layout, choice) != value(layout_, choice)) near.push_back(layout);
    };
    const auto degree = [&](int Layout::*field, int other) {
      Layout layout = layout_;
      layout.*field = other;
      const int ranks = layout.pp * layout.cp * layout.tp;
      if (layout_.world() % ranks != 0) return;
      const int dp = layout_.world() / ranks;
      if (layout.dp_replicate > 1 && dp % layout.dp_shard == 0)
        layout.dp_replicate = dp / layout.dp_shard;
      else
        layout.dp_replicate = 1, layout.dp_shard = dp;
      offer(layout);
    };
    const auto around = [&](int Layout::*field) {
      for (int below = layout_.*field - 1; below >= 1; --below)
        if (layout_.world() % below == 0) {
          degree(field, below);
          break;
        }
      const int most = layout_.world();
      for (int above = layout_.*field + 1; above <= most; ++above)
        if (layout_.world() % above == 0) {
          degree(field, above);
          break;
        }
    };
    Layout other = layout_;
    switch (choice) {
      case Choice::kTp: around(&Layout::tp); break;
      case Choice::kPp: around(&Layout::pp); break;
      case Choice::kCp: around(&Layout::cp); break;
      case Choice::kShards:
        other.dp_shard = layout_.dp();
        other.dp_replicate = 1;
        offer(other);
        for (int shard = layout_.dp_shard / 2; shard >= 2; shard /= 2) {
          if (layout_.dp() % shard != 0) continue;
          other.dp_shard = shard;
          other.dp_replicate = layout_.dp() / shard;
          offer(other);
          break;
        }
        break;
      case Choice::kZero:
        for (const int zero : {0, 1, 2, 3}) {
          other.zero = static_cast<std::uint8_t>(zero);
          other.dp_shard = zero == 0 ? layout_.dp() : layout_.dp_shard;
          other.dp_replicate = zero == 0 ? 1 : layout_.dp_replicate;
          if (std::abs(zero - layout_.zero) == 1 || (zero == 3 && layout_.zero < 3)) offer(other);
        }
        break;
      case Choice::kSequence:
        other.sequence_parallel = !layout_.sequence_parallel;
        offer(other);
        break;
      case Choice::kSchedule: other_schedules(near); break;
      case Choice::kMicroBatch: {
        const std::int64_t share = question_.job.run.global_batch / layout_.dp();
        for (int size = layout_.micro_batch - 1; size >= 1; --size)
          if (share % size == 0) {
            other.micro_batch = size;
            offer(other);
            break;
          }
        for (int size = layout_.micro_batch + 1; size <= share; ++size)
          if (share % size == 0) {
            other.micro_batch = size;
            offer(other);
            break;
          }
        break;
      }
      case Choice::kAgain:  // the nearest that there is, less and more
        for (const int step : {-1, 1})
          for (int at = static_cast<int>(layout_.again) + step;
               at >= 0 && at <= static_cast<int>(Again::kBlocks); at += step) {
            other.again = static_cast<Again>(at);
            if (!can_compute_again(sieved_.sieve().alone(), other.again)) continue;
            offer(other);
            break;
          }
        break;
      case Choice::kAway:
        other.away = Away::kNothing;
        offer(other);
        break;
      case Choice::kDp:
      case Choice::kGpus: break;
    }
    return near;
  }

  void other_schedules(std::vector<Layout>& near) const {
    const auto offer = [&](Schedule schedule, int chunks) {
      Layout other = layout_;
      other.schedule = schedule;
      other.chunks = chunks;
      if (value(other, Choice::kSchedule) != value(layout_, Choice::kSchedule) &&
          std::int64_t{other.pp} * chunks <= sieved_.sieve().nodes())
        near.push_back(other);
    };
    const auto micro_batches = static_cast<int>(sieved_.sieve().micro_batches(layout_));
    for (int index = 0; index < schedules::kScheduleCount; ++index) {
      const auto schedule = static_cast<Schedule>(index);
      const schedules::ScheduleInfo& row = schedules::info(schedule);
      if (!row.compared || (row.takes != nullptr && !row.takes(layout_.pp, micro_batches)))
        continue;
      offer(schedule, row.more_chunks ? std::max(row.chunks, layout_.chunks) : row.chunks);
    }
  }

  // "4 needs 101.3 GiB of 79.1; the best with it (pp 16, ...) takes 6 % longer".
  std::string compare(Choice choice, const Layout& twin) {
    const std::string other = value(twin, choice);
    const std::int64_t batch = question_.job.run.global_batch;
    const bool divides = batch % (std::int64_t{twin.micro_batch} * twin.dp()) == 0;
    const std::string why = divides ? refusal_of(question_, twin) : "";
    std::string text;
    if (divides && why.empty()) {
      const double bytes = sieved_.sieve().price(twin).bytes, limit = sieved_.limit();
      if (bytes > limit)
        text = fmt::format("{} needs {:.3g} GiB of usable {:.3g}", other, gib(bytes), gib(limit));
      if (bytes > limit && choice == Choice::kAway) return text;
    }
    const std::optional<Priced> best =
        sieved_.least([&](const Layout& one) { return value_is(one, choice, twin); });
    if (!best && !why.empty()) return fmt::format("{} cannot be ({})", other, why);
    if (!best) return text.empty() ? text : text + ", and so does every layout with it";
    double ratio = best->estimate / option_.estimate;
    if (ratio < 1) {  // the plan has the last word
      const std::optional<Option> proven = compiled(question_, *best);
      if (!proven) return other + " does not fit once its plan is counted";
      ratio = proven->seconds / option_.seconds;
    }
    const std::string with = differences(best->layout, choice);
    if (!text.empty())
      return fmt::format("{}, and the best with it{} {}", text, with, longer(ratio));
    return fmt::format("{}{} {}", other, with, longer(ratio));
  }

  static bool value_is(const Layout& one, Choice choice, const Layout& twin) {
    switch (choice) {
      case Choice::kTp: return one.tp == twin.tp;
      case Choice::kPp: return one.pp == twin.pp;
      case Choice::kCp: return one.cp == twin.cp;
      case Choice::kShards:
        return one.zero > 0 && one.dp() == twin.dp() && one.dp_shard == twin.dp_shard;
      case Choice::kZero: return one.zero == twin.zero;
      case Choice::kSequence: return one.tp > 1 && one.sequence_parallel == twin.sequence_parallel;
      case Choice::kSchedule:
        return one.pp > 1 && one.schedule == twin.schedule && one.chunks == twin.chunks;
      case Choice::kMicroBatch: return one.micro_batch == twin.micro_batch;
      case Choice::kAgain: return one.again == twin.again;
      case Choice::kAway: return one.away == twin.away;
      case Choice::kDp: return one.dp() == twin.dp();
      case Choice::kGpus: return one.world() == twin.world();
    }
    return false;
  }

  // " (pp 16, recompute whole blocks)": what else is different in the best layout with a choice.
  std::string differences(const Layout& other, Choice choice) const {
    std::string text;
    for (const Choice one : {Choice::kTp, Choice::kPp, Choice::kCp, Choice::kZero,
                             Choice::kSchedule, Choice::kMicroBatch, Choice::kAgain}) {
      if (one == choice || value(other, one) == value(layout_, one)) continue;
      const bool named = one == Choice::kZero || one == Choice::kSchedule;
      const std::string own = one == Choice::kSchedule && other.pp == 1 ? "" : value(other, one);
      if (own.empty()) continue;
      std::string_view label = name(one);
      if (one == Choice::kMicroBatch) label = "micro-batch";
      text += fmt::format("{}{}{}", text.empty() ? "" : ", ",
                          named ? "" : fmt::format("{} ", label), own);
    }
    return text.empty() ? "" : fmt::format(" (with {})", text);
  }

  const Answer& answer_;
  const Question& question_;
  const Sieved& sieved_;
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
  for (Tier& tier : network.cluster.tiers)
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

std::vector<Reason> reasons(const Answer& answer, const Sieved& sieved) {
  return Reasons(answer, sieved).run();
}

std::vector<Change> changes(const Answer& answer, const Sieved& now) {
  constexpr double kTelling = 1.01;  // less is nothing to change a layout for
  constexpr int kEstimated = 8;
  std::vector<Change> changes;
  const Option& option = answer.options.front();
  const Layout& chosen = option.layout;
  const std::optional<Priced> own = now.estimated(chosen);
  // Estimates are compared with estimates, and told as the simulation of the choice has them.
  const double told = own ? option.seconds / own->estimate : 1;
  for (const auto& [what, question] : changed(answer.question)) {
    const Sieved then(question, chosen.away);
    const std::vector<Priced> best = then.best(kEstimated);
    if (best.empty()) {
      changes.push_back({.what = what, .best = chosen, .seconds = 0, .alters = true});
      continue;
    }
    const auto fits = [](const Sieved& sieved) {
      return [&sieved](const Priced& one) { return one.price.bytes <= sieved.limit(); };
    };
    const auto fitting = std::ranges::find_if(best, fits(then));
    const Priced& first = fitting == best.end() ? best.front() : *fitting;
    const bool divides =
        question.job.run.global_batch % (std::int64_t{chosen.micro_batch} * chosen.dp()) == 0;
    const std::optional<Priced> same = divides ? then.estimated(chosen) : std::nullopt;
    // What was ahead by the estimate before, and was not chosen, has to be further ahead now.
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
