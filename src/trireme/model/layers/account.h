// What a list of layers keeps, holds while it runs, sends and computes, on one rank and for one micro-batch.
#pragma once

#include <vector>

#include "trireme/config/job.h"
#include "trireme/model/account/per_rank.h"
#include "trireme/model/account/work.h"
#include "trireme/model/layers/layers.h"
#include "trireme/model/layers/operation.h"
#include "trireme/plan/program.h"

namespace trireme::model {

struct LayersAccount {
  Work work;
  plan::NodeWork transients;
  std::vector<plan::NodeExchange> exchanges;
  std::vector<Operation> operations;
};

// How a block trains: gradients of what it reads and of its own unit, weights with adapters and these adapters' rank.
struct TrainedLayers {
  Gradients gradients{};
  std::vector<int> adapted{};
  std::int64_t adapter_rank = 0;
  bool dropout = false;  // of what adapters read
  bool dora = false;     // adapted weights have trained magnitudes
};

// The block frees a tensor after its last reader, unless backward reads it.
LayersAccount account_of(const BlockLayers& block, const TrainedLayers& trained,
                         const config::Model& model, const Sizes& sizes, const PerRank& rank);

}  // namespace trireme::model
