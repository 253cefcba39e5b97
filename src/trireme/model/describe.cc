#include "trireme/model/describe.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "trireme/base/error.h"
#include "trireme/config/families.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/model/account/flops.h"
#include "trireme/model/account/recompute.h"
#include "trireme/model/families/action.h"
#include "trireme/model/families/arrcoc.h"
#include "trireme/model/families/clip.h"
#include "trireme/model/families/hnet.h"
#include "trireme/model/families/jepa.h"
#include "trireme/model/families/language_model.h"
#include "trireme/model/families/probe.h"
#include "trireme/model/families/vit.h"
#include "trireme/model/families/vlm.h"
#include "trireme/model/layout.h"
#include "trireme/model/param_groups.h"

namespace trireme::model {
namespace {

ModelSpec family_spec(const config::Job& job, const PerRank& rank, const Training& training) {
  switch (job.model.family) {
    case config::Family::kGpt: return gpt_spec(job.model, rank, training);
    case config::Family::kLlama: return llama_spec(job.model, rank, training);
    case config::Family::kJepa:
    case config::Family::kHvjepa: return jepa_spec(job, rank, training);
    case config::Family::kProbe: return probe_spec(job, rank, training);
    case config::Family::kJepaAc: return action_spec(job, rank, training);
    case config::Family::kVit: return vit_spec(job, rank, training);
    case config::Family::kClip: return clip_spec(job, rank, training);
    case config::Family::kHnet: return hnet_spec(job, rank, training);
    case config::Family::kArrcoc: return arrcoc_spec(job, rank, training);
    case config::Family::kVlm: return vlm_spec(job, rank, training);
    default: break;
  }
  TRIREME_CHECK(false, "model.family {}", static_cast<int>(job.model.family));
}

// The units that patterns may name: neither adapters nor averages.
std::vector<std::string> own_units(const ModelSpec& spec) {
  std::vector<std::string> names;
  for (const plan::Unit& unit : spec.program.units)
    if (unit.ema_of < 0 && !holds_adapters(unit.name)) names.push_back(unit.name);
  return names;
}

// Of towers that are frozen whatever a job says patterns do not speak.
void check_trains(const config::Job& job, const ModelSpec& spec) {
  if (std::ranges::none_of(spec.program.units, &plan::Unit::trainable))
    fail(ErrorKind::kUsage,
         "model.frozen={} leaves family {} nothing to train: its tower is frozen as well; leave a "
         "unit out of it",
         job.model.frozen, config::name(job.model.family));
}

}  // namespace

ModelSpec describe(const config::Job& job) {
  const PerRank rank = per_rank(job);
  const Training training(job.model, job.lora);
  ModelSpec spec = family_spec(job, rank, training);
  config::Job alone = job;
  alone.parallel.tp = alone.parallel.cp = 1;
  set_model_flops(spec,
                  job.parallel.tp * job.parallel.cp == 1
                      ? spec.program
                      : family_spec(alone, per_rank(alone), training).program,
                  rank.micro_batch, config::accumulation(job), rank);
  training.check(own_units(spec));
  check_trains(job, spec);
  set_groups(job.optim, spec);
  spec.program = recompute_nodes(job, std::move(spec.program));
  spec.program = place_stages(job, std::move(spec.program));
  check_kept_features(job, spec.program);
  spec.program = recompute_stages(job, std::move(spec.program));
  return spec;
}

}  // namespace trireme::model
