// Contents of a recording, before any step has run: its tensors, and how ranks share each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "trireme/config/job.h"
#include "trireme/model/spec.h"
#include "trireme/plan/mesh/mesh.h"
#include "trireme/train/recording/recording.h"

namespace trireme::train {

// How the ranks of a run share what a node writes.
struct SharedValue {
  bool joint = false;  // a loss that each data-parallel rank computes once a step
  bool spread =
      false;  // cp ranks share its rows, in the order of ranks: the last dimension but one
};

// The tensors of a step: values in the order in which nodes write them, then the gradients and the updates of all
// parameters. Initial parameters have the places of updates.
class Contents {
 public:
  // `job` is resolved.
  explicit Contents(const config::Job& job);

  std::size_t size() const { return values_.size() + 2 * params_; }
  std::size_t updates() const { return values_.size() + params_; }  // the first one's place
  std::size_t of_value(plan::ValueId value) const { return value_at_[value]; }
  std::size_t of_param(Kind kind, plan::UnitId unit, std::size_t param) const {
    return (kind == Kind::kGradient ? values_.size() : updates()) + unit_at_[unit] + param;
  }

  // In that order, without values.
  std::vector<RecordedTensor> tensors(int step) const;
  std::vector<RecordedTensor> initial_parameters() const;
  // The activation at this place of a step.
  const SharedValue& shared(std::size_t tensor) const { return shared_[tensor]; }

  const config::Job& job() const {
    return job_;
  }  // whose first step that is not finite is the last
  const mesh::Mesh& mesh() const { return mesh_; }
  const model::ModelSpec& spec() const { return spec_; }
  std::int64_t micro_batches() const { return job_.run.global_batch / job_.run.micro_batch; }

 private:
  void add_value(const plan::Node& node, plan::ValueId id, const plan::Value& whole);
  std::vector<RecordedTensor> of_params(int step, Kind kind) const;

  config::Job job_;
  mesh::Mesh mesh_;
  model::ModelSpec spec_;
  std::vector<RecordedTensor> values_;  // as they are in every step
  std::vector<SharedValue> shared_;     // parallel to them
  std::size_t params_ = 0;
  std::vector<std::size_t> value_at_;  // by ValueId
  std::vector<std::size_t> unit_at_;   // of its first parameter
};

}  // namespace trireme::train
