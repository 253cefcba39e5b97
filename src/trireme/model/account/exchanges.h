// Exchanges of tp and cp ranks inside the nodes of a language model.
#pragma once

#include <cstdint>
#include <vector>

#include "trireme/model/account/per_rank.h"
#include "trireme/model/account/work.h"
#include "trireme/plan/program.h"

namespace trireme::model {

// Tensor-parallel regions of a block, opened by column-parallel layers and closed by row-parallel ones.
struct RegionCounts {
  int opened = 0, closed = 0;
  int opened_back = 0, closed_back = 0;  // that a gradient passes in backward
  int trained = 0;                       // opened by weights that train
  int again = 0;                         // opened again where part mlp is recomputed
};

class Exchanges {
 public:
  Exchanges(const Sizes& sizes, const PerRank& rank);

  // Of tensor-parallel regions: a column-parallel layer takes all rows, and a row-parallel one sums (Shoeybi et al. 2019).
  // By rows, backward gathers the input of a column-parallel layer a second time for its weights (Korthikanti et al.
  // 2022).
  std::vector<plan::NodeExchange> regions(const RegionCounts& counts) const;
  std::vector<plan::NodeExchange> attention() const;
  // So many sums over tp ranks of a number a token, and with `back` as many in backward.
  std::vector<plan::NodeExchange> row_numbers(int count, bool back) const;
  // So many sums over tp ranks of a number a feature.
  std::vector<plan::NodeExchange> norms(int count) const;
  // Each rank looks up the tokens of its rows of the table.
  std::vector<plan::NodeExchange> embed() const;
  // Two numbers a token, and the gradient of the last activation.
  std::vector<plan::NodeExchange> head(const TrainedHead& head) const;

 private:
  bool sequence() const { return rank_.sequence && rank_.tp > 1; }
  std::vector<plan::NodeExchange> ring(std::int64_t keys, int ranks) const;
  std::vector<plan::NodeExchange> heads(std::int64_t keys) const;

  Sizes sizes_;
  PerRank rank_;
  std::int64_t activation_ = 0;  // bytes of all rows, with padding
};

}  // namespace trireme::model
