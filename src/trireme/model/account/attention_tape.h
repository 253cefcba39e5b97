// Memory of attention while it runs, for each of the ways in which ops/ computes it.
#pragma once

#include "trireme/model/account/per_rank.h"
#include "trireme/model/account/tape.h"
#include "trireme/ops/tiles/attention_scratch.h"

namespace trireme::model {

class AttentionTape {
 public:
  AttentionTape(const config::Model& model, const Sizes& sizes, const PerRank& rank);

  // Begins with input() and leaves made() in memory as well.
  void forward(Tape& tape) const;
  // Begins with kept() and the result's gradient; leaves that of the input instead.
  void backward(Tape& tape) const;

  std::int64_t input() const;  // queries, keys and values as they come
  // Result and log-sum-exps; where heads are exchanged, also queries, keys and values of the heads it computes, and
  // the result in the rank's own.
  std::int64_t made() const;
  std::int64_t kept() const { return made() + (exchanges_ ? 0 : input()); }
  std::int64_t result() const;  // bytes of the result as it grows

 private:
  void keep_log_sums(Tape& tape) const;
  void core_forward(Tape& tape) const;
  void core_backward(Tape& tape) const;

  std::int64_t ranks_;  // over which keys and values are spread when attention itself runs
  bool exchanges_;
  bool gathers_;
  std::int64_t width_;  // of a head
  std::int64_t element_, statistic_;
  // Kernels compute in one of two ways. The plan does not know the choice of the CPU, so the larger one counts.
  tiles::AttentionScratch scratch_;
  std::int64_t tokens_;  // of a sample, as attention itself has them
  // Elements as attention has them; keys are as many as values.
  std::int64_t queries_, keys_;
  std::int64_t own_queries_, own_keys_;  // before heads are exchanged
  std::int64_t log_sums_;
};

}  // namespace trireme::model
