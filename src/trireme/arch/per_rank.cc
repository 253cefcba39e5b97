#include "trireme/arch/per_rank.h"

#include <algorithm>

#include "trireme/base/error.h"
#include "trireme/mesh/share.h"

namespace trireme::arch {
namespace {

using config::Model;

std::int64_t most(std::int64_t count, int parts) { return (count + parts - 1) / parts; }

// Key-value heads of the tp rank that reads most of them.
std::int64_t most_kv_heads(const Model& model, int tp) {
  const std::int64_t group = model.heads / model.kv_heads;
  std::int64_t result = 0;
  for (int rank = 0; rank < tp; ++rank) {
    const mesh::Share heads = mesh::share(model.heads, rank, tp);
    result = std::max(result, most(heads.end, group) - heads.begin / group);
  }
  return result;
}

}  // namespace

Sizes::Sizes(const Model& model, const PerRank& rank)
    : tokens(rank.micro_batch * model.seq_len / rank.cp),
      rows(rank.sequence && rank.tp > 1 ? most(tokens, rank.tp) : tokens),
      d(model.hidden),
      heads(most(model.heads, rank.tp)),
      q(model.hidden / model.heads * heads),
      kv(model.hidden / model.heads * most_kv_heads(model, rank.tp)),
      ffn(most(model.ffn, rank.tp)),
      vocab(most(model.vocab, rank.tp)),
      element(static_cast<std::int64_t>(size_of(rank.compute))),
      statistic(rank.compute == DType::kF64 ? 8 : 4),
      spread(rank.cp > 1 || (rank.sequence && rank.tp > 1)),
      exchanged(rank.cp > 1 && (rank.context == config::ContextMethod::kUlysses ||
                                rank.context == config::ContextMethod::kHierarchical)) {
  TRIREME_CHECK(model.vocab > 0 && model.ffn > 0 && model.kv_heads > 0 && model.layers > 0,
                "model is not resolved");
}

}  // namespace trireme::arch
