// The share of a language model that one rank computes.
#pragma once

#include <cstdint>
#include <string>

#include "trireme/base/dtype.h"
#include "trireme/config/job.h"

namespace trireme::model {

struct PerRank {
  std::int64_t micro_batch = 1;  // samples
  DType compute = DType::kF32;
  std::string node_types{};  // of nodes with another (node_types.h)
  int tp = 1;
  bool sequence =
      false;  // sequence parallelism: of rows between parallel regions a tp rank has its own
  int cp = 1;
  config::ContextMethod context = config::ContextMethod::kRing;
  int context_inner = 1;   // of cp, the ranks that exchange heads (hierarchical)
  bool documents = false;  // positions come with the tokens
  bool answers = false;    // of the tokens, which a preference loss compares
  bool rewards = false;    // of the answers, which a policy loss reads
  // The cp ranks that share the rows of blocks in families other than decoders (model/spread.h); each of them computes
  // everything else whole.
  int spread = 1;
  bool staged = false;  // values cross from stage to stage

  // As blocks see it whose rows are spread.
  PerRank of_rows() const;

  // The cp ranks that exchange heads for tokens before attention.
  int exchanging() const;

  // Whether tokens are shared so that documents give all cp ranks equal work.
  bool balances() const { return documents && cp > exchanging(); }
};

// `job` is resolved.
PerRank per_rank(const config::Job& job);

// Sizes in the letters of papers, on the rank with most of each.
struct Sizes {
  // `model` is resolved.
  Sizes(const config::Model& model, const PerRank& rank);

  std::int64_t tokens;  // of a micro-batch
  std::int64_t rows;    // of them, between tensor-parallel regions
  std::int64_t d;
  std::int64_t q;   // width of queries and of attention's result
  std::int64_t kv;  // width of keys and of values
  std::int64_t ffn;
  std::int64_t vocab;
  std::int64_t element;    // bytes of an activation
  std::int64_t statistic;  // bytes of a norm's or softmax's statistic, and of the loss
  std::int64_t
      added_product;  // bytes that a matrix product which is added to a sum holds in addition to
                      // its operands
  bool spread;        // the rows are not all of them in order
  bool exchanged;     // attention has other heads and tokens than the layers around it

  // Inputs of attention itself, after the exchange of heads: a key-value head belongs to every rank that reads it.
  struct Attention {
    std::int64_t tokens;
    std::int64_t heads;
    std::int64_t q;   // width of queries
    std::int64_t kv;  // width of keys and of values
  } attention;
};

}  // namespace trireme::model
