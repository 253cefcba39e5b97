#include "trireme/train/recording/recording_contents.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/config/families.h"
#include "trireme/model/families/describe.h"
#include "trireme/model/layout.h"

namespace trireme::train {
namespace {

// The same model on one rank, whose values are whole.
config::Job on_one_rank(config::Job job) {
  job.parallel = {.dp_shard = 1};
  job.recompute = {};
  job.offload = {};
  job.network = {};
  return job;
}

}  // namespace

Contents::Contents(const config::Job& job)
    : job_(job), mesh_(model::mesh_of(job)), spec_(model::describe(job)) {
  job_.run.skip_non_finite = 0;
  const plan::Program whole = model::describe(on_one_rank(job)).program;
  const std::vector<plan::Node>& nodes = spec_.program.nodes;
  TRIREME_CHECK(whole.nodes.size() == nodes.size(), "{} has other nodes on one rank", whole.name);
  value_at_.resize(spec_.program.values.size());
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    // Inputs may differ, so values are found by the nodes that write them.
    const std::vector<plan::ValueId>& writes = whole.nodes[n].writes;
    TRIREME_CHECK(writes.size() == nodes[n].writes.size(), "{} has other values on one rank",
                  nodes[n].name);
    for (std::size_t i = 0; i < writes.size(); ++i)
      add_value(nodes[n], nodes[n].writes[i], whole.values[writes[i]]);
  }
  for (const model::UnitSpec& unit : spec_.units) {
    unit_at_.push_back(params_);
    params_ += unit.params.size();
  }
}

void Contents::add_value(const plan::Node& node, plan::ValueId id, const plan::Value& whole) {
  RecordedTensor tensor{.kind = Kind::kActivation, .name = node.name, .loss = node.loss};
  if (node.writes.size() > 1) tensor.name += "/" + whole.name;
  SharedValue shared;
  if (node.loss) {
    shared.joint = node.joint;
    tensor.shape = {node.joint ? 1 : micro_batches()};
  } else if (config::info(job_).chain) {
    tensor.by_sample = true;
    tensor.shape = {job_.run.global_batch, job_.model.seq_len, job_.model.hidden};
  } else {
    TRIREME_CHECK(!whole.shape.empty(), "value {} has no shape", whole.name);
    const plan::Value& own = spec_.program.values[id];
    shared.spread = own.shape != whole.shape;
    tensor.by_sample = !whole.varies && whole.shape[0] == job_.run.micro_batch;
    const config::Pictures pictures = config::info(job_).pictures;
    // No gradient flows through flags, places and numbers; regions come level by level.
    tensor.within =
        !whole.differentiable || (whole.varies && pictures == config::Pictures::kRegions);
    tensor.blanks = whole.varies && pictures == config::Pictures::kTiles;
    tensor.shape = whole.shape;
    tensor.shape[0] *= micro_batches();
  }
  value_at_[id] = values_.size();
  values_.push_back(std::move(tensor));
  shared_.push_back(shared);
}

std::vector<RecordedTensor> Contents::tensors(int step) const {
  std::vector<RecordedTensor> all = values_;
  for (RecordedTensor& value : all) value.step = step;
  for (const Kind kind : {Kind::kGradient, Kind::kUpdate})
    std::ranges::move(of_params(step, kind), std::back_inserter(all));
  return all;
}

std::vector<RecordedTensor> Contents::initial_parameters() const {
  return of_params(kStart, Kind::kParameter);
}

std::vector<RecordedTensor> Contents::of_params(int step, Kind kind) const {
  const config::Precision& precision = job_.precision;
  const DType type = (kind == Kind::kGradient ? precision.grads : precision.master).value();
  std::vector<RecordedTensor> all;
  for (std::size_t unit = 0; unit < spec_.units.size(); ++unit) {
    const plan::UnitId followed = spec_.program.units[unit].ema_of;
    const std::vector<model::ParamSpec>& params = spec_.units[unit].params;
    for (std::size_t param = 0; param < params.size(); ++param) {
      all.push_back({.step = step,
                     .kind = kind,
                     .name = params[param].name,
                     .type = type,
                     .shape = params[param].shape});
      if (followed >= 0 && kind == Kind::kUpdate)
        all.back().follows = spec_.units[followed].params[param].name;
    }
  }
  return all;
}

}  // namespace trireme::train
