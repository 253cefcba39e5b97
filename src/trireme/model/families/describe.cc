#include "trireme/model/families/describe.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "trireme/base/error.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/families/vlm/model.h"
#include "trireme/model/account/flops.h"
#include "trireme/model/account/recompute.h"
#include "trireme/model/families/families.h"
#include "trireme/model/layout.h"
#include "trireme/model/param_groups.h"
#include "trireme/model/stored_base.h"
#include "trireme/model/unit_optimizers.h"

namespace trireme::model {
namespace {

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
  return describe(job, family_model(job.model.family).describe);
}

ModelSpec describe(const config::Job& job, DescribeRank of_rank) {
  const PerRank rank = per_rank(job);
  const Training training(job.model, job.lora);
  ModelSpec spec = of_rank(job, rank, training);
  if (rank.answers) spec.metrics = config::preference_metrics(job.preference);
  config::Job alone = job;
  alone.parallel.tp = alone.parallel.cp = 1;
  set_model_flops(spec,
                  job.parallel.tp * job.parallel.cp == 1
                      ? spec.program
                      : of_rank(alone, per_rank(alone), training).program,
                  rank.micro_batch, config::accumulation(job), rank);
  training.check(own_units(spec));
  check_trains(job, spec);
  set_groups(job.optim, spec);
  set_optimizers(job.optim, job.parallel.tp, spec);
  store_base(job, spec);
  spec.program = recompute_nodes(job, std::move(spec.program));
  spec.program = place_stages(job, std::move(spec.program));
  check_kept_features(job, spec.program);
  spec.program = recompute_stages(job, std::move(spec.program));
  return spec;
}

}  // namespace trireme::model
