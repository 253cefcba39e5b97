// What tp and cp ranks exchange inside the nodes of a language model.
#pragma once

#include <cstdint>
#include <vector>

#include "trireme/model/account/per_rank.h"
#include "trireme/model/account/work.h"
#include "trireme/plan/program.h"

namespace trireme::model {

class Exchanges {
 public:
  Exchanges(const Sizes& sizes, const PerRank& rank);

  // Attention's, and two regions, each a column-parallel layer, which takes all rows, and a row-parallel one,
  // which sums (Shoeybi et al. 2019); by rows, what a column-parallel layer took is gathered again in backward
  // (Korthikanti et al. 2022). Where no gradient goes, and for weights that do not train, nothing is.
  std::vector<plan::NodeExchange> block(const TrainedBlock& block) const;
  // Each rank looks up the tokens of its rows of the table.
  std::vector<plan::NodeExchange> embed() const;
  // Two numbers a token, and the gradient of the last activation.
  std::vector<plan::NodeExchange> head(const TrainedHead& head) const;

 private:
  bool sequence() const { return rank_.sequence && rank_.tp > 1; }
  std::vector<plan::NodeExchange> attention() const;
  std::vector<plan::NodeExchange> ring(std::int64_t keys, int ranks) const;
  std::vector<plan::NodeExchange> heads(std::int64_t keys) const;

  Sizes sizes_;
  PerRank rank_;
  std::int64_t activation_ = 0;  // bytes of all rows, with padding
};

}  // namespace trireme::model
