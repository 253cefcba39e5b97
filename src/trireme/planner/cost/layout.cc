#include "trireme/planner/cost/layout.h"

#include <fmt/core.h>

#include "trireme/base/error.h"
#include "trireme/config/families.h"
#include "trireme/model/families/describe.h"
#include "trireme/plan/schedules/info.h"

namespace trireme::planner {
namespace {

void set_recomputed(config::Recompute& recompute, Recomputed recomputed) {
  if (recomputed == Recomputed::kAsGiven) return;
  const config::Recompute given = recompute;
  recompute = {};
  recompute.logits = given.logits;
  if (recomputed == Recomputed::kBlocks) recompute.policy = config::RecomputePolicy::kFull;
  if (recomputed == Recomputed::kAttention || recomputed == Recomputed::kMlp)
    recompute.policy = config::RecomputePolicy::kSelective;
  if (recomputed == Recomputed::kMlp) recompute.parts = "norms,attention,mlp";
}

void set_away(config::Offload& offload, Away away) {
  if (away == Away::kAsGiven) return;
  offload = {};
  if (away == Away::kNothing) return;
  offload.optimizer = Tier::kHost;
  if (away != Away::kEverything) return;
  offload.grads = Tier::kHost;
  offload.params = Tier::kHost;
}

// Of these settings alone, what they say.
template <typename Given, typename Choice, typename Set>
Choice said(const Given& given, std::initializer_list<Choice> choices, const Set& set) {
  for (const Choice choice : choices) {
    Given one = given;
    set(one, choice);
    if (one == given) return choice;
  }
  return Choice::kAsGiven;
}

}  // namespace

std::string_view text(Recomputed recomputed) {
  switch (recomputed) {
    case Recomputed::kNothing: return "nothing";
    case Recomputed::kAttention: return "norms and attention";
    case Recomputed::kMlp: return "norms, attention and activations";
    case Recomputed::kBlocks: return "whole blocks";
    case Recomputed::kAsGiven: return "as given";
  }
  return "";
}

std::string_view text(Away away) {
  switch (away) {
    case Away::kNothing: return "nothing";
    case Away::kOptimizer: return "optimizer";
    case Away::kEverything: return "optimizer, gradients and parameters";
    case Away::kAsGiven: return "as given";
  }
  return "";
}

std::string schedule_text(const Layout& layout) {
  if (layout.pp == 1) return "none";
  const std::string own(schedules::name(layout.schedule));
  return schedules::info(layout.schedule).more_chunks ? fmt::format("{} x{}", own, layout.chunks)
                                                      : own;
}

Recomputed recomputed_of(const config::Recompute& given) {
  return said(given,
              {Recomputed::kNothing, Recomputed::kAttention, Recomputed::kMlp, Recomputed::kBlocks},
              set_recomputed);
}

Away away_of(const config::Offload& given) {
  return said(given, {Away::kNothing, Away::kOptimizer, Away::kEverything}, set_away);
}

config::Job with_layout(config::Job job, const Layout& layout) {
  config::Parallel& parallel = job.parallel;
  parallel.pp = layout.pp;
  parallel.dp_replicate = layout.dp_replicate;
  parallel.dp_shard = layout.dp_shard;
  parallel.cp = layout.cp;
  parallel.tp = layout.tp;
  parallel.sequence_parallel = layout.sequence_parallel;
  parallel.zero = layout.zero;
  parallel.schedule = schedules::name(layout.schedule);
  parallel.virtual_stages = schedules::info(layout.schedule).more_chunks ? layout.chunks : 0;
  set_recomputed(job.recompute, layout.recomputed);
  set_away(job.offload, layout.away);
  job.run.micro_batch = layout.micro_batch;
  return job;
}

bool can_recompute(const config::Job& job, Recomputed recomputed) {
  const bool all = job.model.frozen.empty() && job.lora.rank == 0;
  if (recomputed == Recomputed::kNothing || (all && config::info(job).chain)) return true;
  try {
    model::describe(with_layout(job, {.recomputed = recomputed}));
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUsage) throw;
    return false;
  }
  return true;
}

std::string text(const Layout& layout) {
  std::string all;
  const auto add = [&](const std::string& part) {
    all += fmt::format("{}{}", all.empty() ? "" : ", ", part);
  };
  if (layout.pp > 1) add(fmt::format("pp {}", layout.pp));
  if (layout.dp() > 1)
    add(fmt::format("dp {}{}", layout.dp(),
                    layout.dp_replicate > 1 && layout.zero > 0
                        ? fmt::format(" in shards of {}", layout.dp_shard)
                        : ""));
  if (layout.cp > 1) add(fmt::format("cp {}", layout.cp));
  if (layout.tp > 1)
    add(fmt::format("tp {}{}", layout.tp, layout.sequence_parallel ? " with rows shared" : ""));
  add(layout.zero == 0 && layout.dp() > 1 ? "ZeRO-0 (DDP)" : fmt::format("ZeRO-{}", layout.zero));
  if (layout.pp > 1) add(schedule_text(layout));
  add(fmt::format("micro-batch {}", layout.micro_batch));
  if (layout.recomputed != Recomputed::kNothing)
    add(fmt::format("recompute {}", text(layout.recomputed)));
  if (layout.away != Away::kNothing) add(fmt::format("on the host: {}", text(layout.away)));
  return all;
}

}  // namespace trireme::planner
