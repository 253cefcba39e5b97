#include "trireme/model/account/per_rank.h"

#include <algorithm>

#include "trireme/base/error.h"
#include "trireme/config/families.h"
#include "trireme/config/head_width.h"
#include "trireme/plan/mesh/share.h"

namespace trireme::model {
namespace {

using config::Model;

// Of ops/kernels/cpu/matmul.cc, in elements.
constexpr std::int64_t kTile = 128 * 128;

std::int64_t most(std::int64_t count, int parts) { return (count + parts - 1) / parts; }

// As each of `exchanging` ranks shares out the heads of its tp rank.
Sizes::Attention attention_sizes(const Model& model, int tp, int exchanging, std::int64_t tokens) {
  const std::int64_t group = model.heads / model.kv_heads;
  std::int64_t most_heads = 0, most_kv_heads = 0;
  for (int rank = 0; rank < tp; ++rank) {
    const mesh::Share all = mesh::share(model.heads, rank, tp);
    for (int place = 0; place < exchanging; ++place) {
      const mesh::Share mine = mesh::share(all.count(), place, exchanging);
      const mesh::Share read =
          mesh::granules_of({.begin = all.begin + mine.begin, .end = all.begin + mine.end}, group);
      most_heads = std::max(most_heads, mine.count());
      most_kv_heads = std::max(most_kv_heads, read.count());
    }
  }
  const std::int64_t width = config::head_width(model);
  return {.tokens = tokens * exchanging,
          .heads = most_heads,
          .q = width * most_heads,
          .kv = width * most_kv_heads};
}

}  // namespace

int PerRank::exchanging() const {
  if (cp == 1) return 1;
  switch (context) {
    case config::ContextMethod::kRing:
    case config::ContextMethod::kAllGather: return 1;
    case config::ContextMethod::kUlysses: return cp;
    case config::ContextMethod::kHierarchical: return context_inner;
  }
  TRIREME_CHECK(false, "context method {}", static_cast<int>(context));
}

PerRank PerRank::of_rows() const {
  if (spread == 1) return *this;
  PerRank rank = *this;
  rank.cp = spread;
  rank.spread = 1;
  rank.context = config::ContextMethod::kAllGather;
  return rank;
}

PerRank per_rank(const config::Job& job) {
  const config::FamilyInfo& family = config::info(job);
  return {
      .micro_batch = job.run.micro_batch,
      .compute = job.precision.compute,
      .node_types = job.precision.nodes,
      .tp = job.parallel.tp,
      .sequence = job.parallel.sequence_parallel && job.parallel.tp > 1 && family.sequence_parallel,
      .cp = family.zigzag ? job.parallel.cp : 1,
      .context = job.parallel.context,
      .context_inner = job.parallel.context_inner,
      .documents = job.data.documents || job.vlm.pack,
      .answers = job.data.source == config::DataSource::kPreferences,
      .rewards = job.data.source == config::DataSource::kPreferences &&
                 config::rewards_answers(job.preference.loss),
      .spread = family.zigzag ? 1 : job.parallel.cp,
      .staged = job.parallel.pp > 1};
}

Sizes::Sizes(const Model& model, const PerRank& rank)
    : tokens(rank.micro_batch * most(model.seq_len, rank.cp)),
      rows(rank.sequence && rank.tp > 1 ? most(tokens, rank.tp) : tokens),
      d(model.hidden),
      q(config::head_width(model) * most(model.heads, rank.tp)),
      kv(attention_sizes(model, rank.tp, 1, tokens).kv),
      ffn(most(model.ffn, rank.tp)),
      vocab(most(model.vocab, rank.tp)),
      element(static_cast<std::int64_t>(size_of(rank.compute))),
      statistic(rank.compute == DType::kF64 ? 8 : 4),
      added_product(rank.compute == DType::kF64 ? kTile * statistic : 0),
      spread(rank.cp > 1 || (rank.sequence && rank.tp > 1)),
      exchanged(rank.exchanging() > 1),
      attention(attention_sizes(model, rank.tp, rank.exchanging(), tokens)) {
  TRIREME_CHECK(model.vocab > 0 && model.ffn > 0 && model.kv_heads > 0 && model.layers > 0,
                "model is not resolved");
}

}  // namespace trireme::model
