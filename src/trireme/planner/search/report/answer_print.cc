#include "trireme/planner/search/report/answer_print.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "trireme/base/text.h"
#include "trireme/config/families.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/model/account/flops.h"
#include "trireme/planner/hardware/uncertainty.h"
#include "trireme/planner/search/report/choices.h"

namespace trireme::planner {
namespace {

// Forecasts: about three significant digits, with the usual unit.
std::string short_bytes(double bytes) {
  constexpr double kMib = 1 << 20, kGib = 1 << 30, kThreeDigits = 99.95;
  if (bytes >= kGib) return fmt::format("{:.1f} GiB", bytes / kGib);
  return bytes < kThreeDigits * kMib ? fmt::format("{:.3g} MiB", bytes / kMib)
                                     : fmt::format("{:.0f} MiB", bytes / kMib);
}

std::string short_seconds(double seconds) {
  if (std::isinf(seconds)) return "never";
  if (seconds < 1) return fmt::format("{:.3g} ms", 1e3 * seconds);
  if (seconds < 600) return fmt::format("{:.3g} s", seconds);
  if (seconds < 2 * 3600) return fmt::format("{:.3g} min", seconds / 60);
  if (seconds < 48 * 3600) return fmt::format("{:.3g} h", seconds / 3600);
  return fmt::format("{:.4g} days", seconds / 86400);
}

std::string count_text(double count) {
  constexpr std::pair<double, const char*> kUnits[] = {
      {1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}};
  for (const auto& [unit, letter] : kUnits)
    if (count >= unit) return fmt::format("{:.4g} {}", count / unit, letter);
  return fmt::format("{:.4g}", count);
}

std::string money_text(double dollars) {
  if (dollars < 100) return fmt::format("{:.2f} $", dollars);
  if (dollars < 1e4) return fmt::format("{:.0f} $", dollars);
  if (dollars < 1e6) return fmt::format("{:.1f} k$", dollars / 1e3);
  return fmt::format("{:.3g} M$", dollars / 1e6);
}

Band band_of(const Answer& answer, const Option& option) {
  if (option.high > 0) return {.low = option.low, .high = option.high};
  const Band around = band(answer.question.cluster.gpu, option.seconds);
  const bool alike = config::info(option.job).chain && unfused(option.job).empty();
  return alike ? around : wider(around);
}

std::string head_text(const Answer& answer) {
  const Option& best = answer.options.front();
  const config::Job& job = best.job;
  const config::Model& m = job.model;
  const std::string sizes =
      config::info(m.family).chain
          ? fmt::format("{} layers, {} wide, {} heads, context {}: ", m.layers, m.hidden, m.heads,
                        m.seq_len)
          : "";
  const Cluster& cluster = answer.question.cluster;
  return fmt::format(
      "runtime   {}\n"
      "model     {}: {}{} parameters, {}\n"
      "step      {} samples of {} tokens\n"
      "cluster   {}: {} of {} x {}, {} a host\n",
      describe(answer.question.as, on_gpus(cluster)), config::name(m.family), sizes,
      count_text(best.parameters), name(job.precision.compute), job.run.global_batch,
      best.sample_tokens, cluster.name, best.layout.world(), cluster.gpus(), cluster.gpu.name,
      cluster.gpus_per_host);
}

std::string others_text(const Answer& answer) {
  if (answer.options.size() < 2) return "";
  const Option& best = answer.options.front();
  std::string text = "\nrunners-up, each the best of its shape\n";
  for (std::size_t at = 1; at < answer.options.size(); ++at) {
    const Option& option = answer.options[at];
    const bool fewer = option.layout.world() != best.layout.world();
    const double cost = answer.by == Objective::kTime ? option.seconds / best.seconds
                                                      : option.seconds * option.layout.world() /
                                                            (best.seconds * best.layout.world());
    text += fmt::format("  {:>+5.1f} %  {:>9}  {:>9}  {}{}\n", 100 * (cost - 1),
                        short_seconds(option.seconds), short_bytes(needed(answer.question, option)),
                        fewer ? devices(answer.question.cluster, option.layout.world()) + ": " : "",
                        planner::text(option.layout));
  }
  return text;
}

std::string why_text(const Answer& answer) {
  std::string text;
  if (!answer.reasons.empty()) text += "\nwhy\n";
  for (const Reason& reason : answer.reasons) text += fmt::format("  {}\n", reason.text);
  if (!answer.changes.empty()) text += "\nwhat would change it\n";
  for (const Change& change : answer.changes) {
    if (change.seconds == 0)
      text += fmt::format("  {}: no layout would do\n", change.what);
    else if (change.alters)
      text += fmt::format("  {}: {}, {} a step\n", change.what, planner::text(change.best),
                          short_seconds(change.seconds));
    else
      text +=
          fmt::format("  {}: the same, {} a step\n", change.what, short_seconds(change.seconds));
  }
  return text;
}

std::string rate_text(double bytes_per_s) {
  const double bits = 8 * bytes_per_s;
  return bits < 1e9 ? fmt::format("{:.3g} Mb/s", bits / 1e6)
                    : fmt::format("{:.3g} Gb/s", bits / 1e9);
}

std::string communication_text(const Answer& answer) {
  if (answer.communications.empty()) return "";
  std::string text = "\ncommunication between hosts: step, bytes a host sends, loss as measured\n";
  for (const Communication& one : answer.communications) {
    text += fmt::format("{} {:<12}", one.chosen ? "*" : " ", one.name);
    if (one.seconds > 0)
      text += fmt::format("{:>9}  {:>9}  {}", short_seconds(one.seconds), short_bytes(one.sent),
                          one.exact  ? "exact"
                          : one.loss ? fmt::format("+{:.2g} %", *one.loss)
                                     : "not measured");
    if (one.below > 0)
      text += fmt::format("; pays below {}: {} fewer for {} of coding", rate_text(one.below),
                          short_bytes(one.below * one.codec_s), short_seconds(one.codec_s));
    if (!one.why.empty()) text += (one.seconds > 0 ? "; " : "") + one.why;
    text += "\n";
  }
  return text;
}

std::string offer_text(const char* kind, const std::optional<Offer>& offer, const Option& option) {
  if (!offer) return "";
  return fmt::format("{}  {}: {} an hour, {} in {}\n", kind, name(*offer),
                     money_text(offer->dollars_per_gpu_hour * option.layout.world()),
                     money_text(dollars(offer->bill)), short_seconds(3600 * offer->hours));
}

std::string mix_text(const Mix& mix) {
  std::string parts;
  for (const Part& part : mix.parts)
    parts +=
        fmt::format("{}{:.3g} % {}", parts.empty() ? "" : ", ", 100 * part.share, name(part.offer));
  return fmt::format("  in time    {}: {} in {}\n", parts, money_text(mix.dollars),
                     short_seconds(3600 * mix.hours));
}

std::string spending_text(const Answer& answer, const Spending& run) {
  const Option& best = answer.options.front();
  std::string text = fmt::format(
      "\ntraining on {} tokens\n  time       {}: {} steps, {:.1f} % of the time useful; {} {} "
      "hours, {:.4g} MWh\n",
      count_text(run.tokens), short_seconds(3600 * run.hours), count_text(run.steps),
      100 * run.goodput.useful, count_text(run.gpu_hours), answer.question.cluster.device(),
      run.kwh / 1e3);
  const double interval = run.goodput.interval_s;
  const std::string size = short_bytes(run.checkpoint_bytes);
  if (std::isinf(run.mttf_s))
    text += fmt::format("  checkpoint {}, at the end: the cluster names no failures\n", size);
  else if (interval >= 3600 * run.useful_hours)
    text += fmt::format("  checkpoint {}, at the end; a stop every {}\n", size,
                        short_seconds(run.mttf_s));
  else
    text += fmt::format("  checkpoint {} every {} ({} steps), {} of stall each; a stop every {}\n",
                        size, short_seconds(interval),
                        count_text(std::max(1.0, std::floor(interval / best.seconds))),
                        short_seconds(run.checkpoint.stall_s), short_seconds(run.mttf_s));
  if (run.reducers > 0)
    text += fmt::format("  servers    {} of reduction servers in addition\n",
                        money_text(run.reducers * run.hours));
  text += offer_text("  on demand", run.on_demand, best);
  text += offer_text("  spot     ", run.spot, best);
  if (run.in_time) text += mix_text(*run.in_time);
  return text;
}

Json layout_json(const Layout& layout) {
  return {{"pp", layout.pp},
          {"dp_replicate", layout.dp_replicate},
          {"dp_shard", layout.dp_shard},
          {"cp", layout.cp},
          {"tp", layout.tp},
          {"sequence_parallel", layout.sequence_parallel},
          {"zero", layout.zero},
          {"schedule", schedules::name(layout.schedule)},
          {"virtual_stages", layout.chunks},
          {"micro_batch", layout.micro_batch},
          {"recompute", text(layout.recomputed)},
          {"offload", text(layout.away)},
          {"text", text(layout)}};
}

Json option_json(const Answer& answer, const Option& option) {
  const Band around = band_of(answer, option);
  Json memory = Json::object();
  for (const MemoryTerm& term : option.memory.terms) memory[term.name] = term.bytes;
  return {{"gpus", option.layout.world()},
          {"layout", layout_json(option.layout)},
          {"step_s", option.seconds},
          {"step_s_80", {around.low, around.high}},
          {"mfu", option.mfu(answer.question.cluster)},
          {"tokens_per_s", option.tokens() / option.seconds},
          {"idle", option.bubble},
          {"exposed_comm_s", option.exposed},
          {"memory_bytes", needed(answer.question, option)},
          {"memory", memory},
          {"host_bytes", option.host}};
}

Json finite(double value) { return std::isinf(value) ? Json(nullptr) : Json(value); }

Json offer_json(const std::optional<Offer>& offer, const Option& option) {
  if (!offer) return nullptr;
  return {{"provider", offer->provider},
          {"region", offer->region},
          {"dollars_per_hour", offer->dollars_per_gpu_hour * option.layout.world()},
          {"dollars", dollars(offer->bill)},
          {"hours", offer->hours},
          {"goodput", offer->goodput.useful}};
}

Json mix_json(const std::optional<Mix>& mix) {
  if (!mix) return nullptr;
  Json parts = Json::array();
  for (const Part& part : mix->parts)
    parts.push_back({{"provider", part.offer.provider},
                     {"region", part.offer.region},
                     {"spot", part.offer.spot},
                     {"share", part.share}});
  return {{"dollars", mix->dollars}, {"hours", mix->hours}, {"parts", parts}};
}

Json spending_json(const Spending& run, const Option& option) {
  return {{"tokens", run.tokens},
          {"steps", run.steps},
          {"hours", run.hours},
          {"gpu_hours", run.gpu_hours},
          {"kwh", run.kwh},
          {"reducer_dollars", run.reducers * run.hours},
          {"mttf_s", finite(run.mttf_s)},
          {"checkpoint_bytes", run.checkpoint_bytes},
          {"checkpoint_interval_s", finite(run.goodput.interval_s)},
          {"checkpoint_stall_s", run.checkpoint.stall_s},
          {"goodput", run.goodput.useful},
          {"on_demand", offer_json(run.on_demand, option)},
          {"spot", offer_json(run.spot, option)},
          {"in_time", mix_json(run.in_time)}};
}

std::vector<std::string> notes_of(const Answer& answer, const std::optional<Spending>& spending) {
  std::vector<std::string> notes = answer.notes;
  if (spending && spending->assumed)
    notes.push_back(
        fmt::format("cluster {} names no checkpoint_rate: {:.2g} GB/s a host is assumed",
                    answer.question.cluster.name, spending->checkpoint_rate / 1e9));
  return notes;
}

}  // namespace

std::string best_text(const Answer& answer) {
  const Option& best = answer.options.front();
  const Cluster& cluster = answer.question.cluster;
  const Band around = band_of(answer, best);
  std::string text = fmt::format("layout    {}\n", planner::text(best.layout));
  const auto mfu = [&](double seconds) { return 100 * best.mfu(cluster) * best.seconds / seconds; };
  text += fmt::format("forecast  {} a step, four times of five {} to {}; {} tokens/s\n",
                      short_seconds(best.seconds), short_seconds(around.low),
                      short_seconds(around.high), count_text(best.tokens() / best.seconds));
  text += fmt::format("          {:.1f} % MFU ({:.1f} to {:.1f}) {} {}: {}\n", mfu(best.seconds),
                      mfu(around.high), mfu(around.low),
                      cluster.gpu.core ? "of products alone in" : "of the data sheet's",
                      name(best.job.precision.compute), model::kComputedFlops);
  text += fmt::format("          {:.1f} % of the step idle, {} of communication uncovered\n",
                      100 * best.bubble, short_seconds(best.exposed));
  text += fmt::format("memory    {} of {} a {}", short_bytes(needed(answer.question, best)),
                      short_bytes(memory_of(answer.question)), cluster.gpu.name);
  bool first = true;
  for (const MemoryTerm& term : best.memory.terms) {
    constexpr double kTelling = 0.001;  // of all
    if (term.pool == Pool::kHost || term.bytes < kTelling * needed(answer.question, best)) continue;
    text += fmt::format("{} {} {}", std::exchange(first, false) ? ":" : ",", term.name,
                        short_bytes(term.bytes));
  }
  text += "\n";
  if (best.host > 0)
    text += fmt::format("          {} of each in host memory\n", short_bytes(best.host));
  return text;
}

std::string answer_text(const Answer& answer, const std::optional<Spending>& spending) {
  std::string text = head_text(answer) + "\n" + best_text(answer) + others_text(answer) +
                     why_text(answer) + communication_text(answer);
  if (spending) text += spending_text(answer, *spending);
  std::string notes;
  for (const std::string& note : notes_of(answer, spending))
    notes += fmt::format("note      {}\n", note);
  constexpr std::size_t kColumns = 120, kIndent = 10;
  return wrapped(text + (notes.empty() ? "" : "\n" + notes), kColumns, kIndent);
}

Json answer_json(const Answer& answer, const std::optional<Spending>& spending) {
  const Option& best = answer.options.front();
  const Cluster& cluster = answer.question.cluster;
  Json options = Json::array(), reasons = Json::array(), changes = Json::array(),
       communications = Json::array();
  for (const Option& option : answer.options) options.push_back(option_json(answer, option));
  for (const Reason& reason : answer.reasons)
    reasons.push_back({{"choice", name(reason.choice)},
                       {"value", value(best.layout, reason.choice)},
                       {"text", reason.text}});
  for (const Change& change : answer.changes)
    changes.push_back({{"what", change.what},
                       {"alters", change.alters},
                       {"layout", change.seconds == 0 ? Json(nullptr) : layout_json(change.best)},
                       {"step_s", change.seconds == 0 ? Json(nullptr) : Json(change.seconds)}});
  for (const Communication& one : answer.communications)
    communications.push_back(
        {{"name", one.name},
         {"chosen", one.chosen},
         {"allowed", one.allowed},
         {"exact", one.exact},
         {"loss_percent", one.loss ? Json(*one.loss) : Json(nullptr)},
         {"step_s", one.seconds > 0 ? Json(one.seconds) : Json(nullptr)},
         {"sent_bytes", one.sent},
         {"codec_s", one.codec_s},
         {"pays_below_bytes_per_s", one.below > 0 ? Json(one.below) : Json(nullptr)},
         {"why", one.why}});
  Json json = {{"version", 1},
               {"cluster", cluster.name},
               {"gpu", cluster.gpu.name},
               {"gpu_memory_bytes", cluster.gpu.memory},
               {"by", answer.by == Objective::kTime ? "time" : "money"},
               {"parameters", best.parameters},
               {"tokens_per_step", best.tokens()},
               {"flops_convention", model::kComputedFlops},
               {"as", answer.question.as == RuntimeAs::kToday ? "today" : "planned"},
               {"options", options},
               {"reasons", reasons},
               {"changes", changes},
               {"notes", notes_of(answer, spending)},
               {"communications", communications},
               {"training", spending ? spending_json(*spending, best) : Json(nullptr)},
               {"layouts_priced", answer.effort.layouts}};
  return json;
}

}  // namespace trireme::planner
