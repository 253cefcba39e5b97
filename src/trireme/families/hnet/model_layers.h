// The parameters of an H-Net, under the names of its reference code.
#pragma once

#include <string>
#include <vector>

#include "trireme/families/hnet/keys_stages.h"
#include "trireme/model/layers/layers.h"
#include "trireme/model/spec.h"

namespace trireme::model {

class HnetParams {
 public:
  HnetParams(std::vector<config::HnetStage> stages, double init_std);

  const config::HnetStage& stage(std::size_t s) const { return stages_[s]; }

  std::vector<ParamSpec> embed(std::int64_t vocab) const;
  // The index-th block of a side. For t and T: norm1, Wqkv, out_proj, and for T also norm2, fc1 (value, then gate), fc2.
  // For m and M: norm1, in_proj (z, x, B, C, steps), conv1d and its bias, dt_bias, A_log, D, norm, out_proj, and for M
  // also those of T.
  BlockLayers block(std::size_t s, bool decoder, std::size_t index, const PerRank& rank = {}) const;
  // The encoder's norm and the projections of the router. Where the next stage is wider, also the padding of its rows,
  // which learns at the rate of that stage.
  std::vector<ParamSpec> route(std::size_t s) const;
  // The norm of the stage inside, which learns at the rate of that stage, the projection of what goes around it.
  std::vector<ParamSpec> join(std::size_t s) const;
  std::vector<ParamSpec> head(std::int64_t vocab) const;
  // As far as work and exchanges go a stage is a language model of its own, of so many positions a sample.
  config::Model as_model(std::size_t s, std::int64_t positions = 1) const;

 private:
  // "backbone.main_network." of stage 1.
  std::string prefix(std::size_t s) const;
  // Initial deviation of layers that write to the residual stream: smaller by the square root of all additions to it
  // and the streams around.
  double residual_std(std::size_t s) const;
  // With the learning rate of stage s.
  std::vector<ParamSpec> at_rate(std::size_t s, std::vector<ParamSpec> params) const;

  std::vector<config::HnetStage> stages_;
  double std_;
};

}  // namespace trireme::model
