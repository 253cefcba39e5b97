#include "trireme/model/account/attention_tape.h"

#include "trireme/config/head_width.h"

namespace trireme::model {
namespace {

// As ops/attention/score_tiles.h and ops/attention/attention_tile.h have them.
constexpr std::int64_t kTileRows = 64, kTileColumns = 2048;
// As ops/attention/pair_tiles.h has them.
constexpr std::int64_t kCacheRows = 16, kPairColumns = 512;

std::int64_t pair_stride(std::int64_t keys) {
  const std::int64_t columns = std::min(keys, kPairColumns);
  return columns + 32 - columns % 16;
}

}  // namespace

AttentionTape::AttentionTape(const config::Model& model, const Sizes& sizes, const PerRank& rank)
    : ranks_(rank.cp / rank.exchanging()),
      exchanges_(sizes.exchanged),
      gathers_(rank.cp > 1 && rank.context == config::ContextMethod::kAllGather),
      width_(config::head_width(model)),
      element_(sizes.element),
      statistic_(sizes.statistic),
      added_product_(sizes.added_product),
      packs_(rank.compute == DType::kBF16),
      tokens_(sizes.attention.tokens / rank.micro_batch),
      queries_(sizes.attention.tokens * sizes.attention.q),
      keys_(sizes.attention.tokens * sizes.attention.kv),
      own_queries_(sizes.tokens * sizes.q),
      own_keys_(sizes.tokens * sizes.kv),
      log_sums_(sizes.attention.tokens * sizes.attention.heads) {}

std::int64_t AttentionTape::input() const { return element_ * (own_queries_ + 2 * own_keys_); }
std::int64_t AttentionTape::result() const { return element_ * own_queries_; }
std::int64_t AttentionTape::made() const {
  return element_ * (queries_ + (exchanges_ ? queries_ + 2 * keys_ + own_queries_ : 0)) +
         statistic_ * log_sums_;
}

// Scores of a tile and what becomes of them.
std::int64_t AttentionTape::tile(std::int64_t keys) const {
  const std::int64_t columns = std::min(keys, kTileColumns);
  return kTileRows * (columns + 32 - columns % 16) * (statistic_ + element_);
}

// In addition to tiles of scores, a product that is added to their sums of queries or keys.
std::int64_t AttentionTape::added(std::int64_t keys) const {
  return std::min(added_product_,
                  std::max(kTileRows, std::min(keys, kTileColumns)) * width_ * statistic_);
}

// Tiles are computed in one of two ways: scores of whole blocks, or packed keys and values with few scores. The plan
// does not know the choice of the CPU, so the larger one counts. `segment` tokens of keys follow each other.
std::int64_t AttentionTape::forward_work(std::int64_t segment, std::int64_t keys) const {
  const std::int64_t packed =
      kCacheRows * pair_stride(segment) * (statistic_ + element_) + 2 * keys * width_ * element_;
  return kTileRows * width_ * statistic_ + std::max(tile(segment), packs_ ? packed : 0);
}

// The same, with the sums of gradients of a block's queries, or of all if keys are not all in one tile. 0 queries: they
// are counted elsewhere.
std::int64_t AttentionTape::backward_work(std::int64_t segment, std::int64_t queries) const {
  const auto sums = [&](std::int64_t columns) {
    return (segment <= columns && queries > 0 ? kTileRows : queries) * width_ * statistic_;
  };
  const std::int64_t stride = pair_stride(segment);
  const std::int64_t scores = 2 * kCacheRows * statistic_ + 3 * kTileRows * element_;
  const std::int64_t packed = 3 * std::min(segment, kPairColumns) + 2 * kTileRows;
  return std::max(2 * tile(segment) + added(segment) + sums(kTileColumns),
                  packs_ ? stride * scores + packed * width_ * element_ + sums(kPairColumns) : 0);
}

void AttentionTape::forward(Tape& tape) const {
  const std::int64_t all = element_ * (queries_ + 2 * keys_);
  if (exchanges_) {  // queries, keys and values: sent, received, in sequence
    tape.take(2 * all);
    tape.give(all);
    tape.take(all);
    tape.give(all);
  }
  core_forward(tape);
  if (exchanges_) {  // the result: by ranks, sent, received, by heads
    tape.take(element_ * (2 * queries_ + own_queries_));
    tape.give(element_ * queries_);
    tape.take(element_ * own_queries_);
    tape.give(element_ * (queries_ + own_queries_));
  }
}

void AttentionTape::core_forward(Tape& tape) const {
  tape.take(element_ * queries_);
  if (ranks_ == 1) {
    tape.take(statistic_ * log_sums_);
    return tape.pass(forward_work(tokens_, tokens_));
  }
  if (gathers_) {
    // Those at hand, by ranks, in sequence.
    tape.take(2 * element_ * keys_ * (1 + 2 * ranks_));
    tape.give(2 * element_ * keys_ * (1 + ranks_));
    tape.take(statistic_ * log_sums_);
    tape.pass(forward_work(tokens_ * ranks_, tokens_ * ranks_));
    return tape.give(2 * element_ * keys_ * ranks_);
  }
  // Sums, tops and weights so far; keys and values at hand and those to come.
  const std::int64_t partial = statistic_ * (queries_ + 2 * log_sums_);
  tape.take(partial + 4 * element_ * keys_);
  tape.pass(forward_work(tokens_ / 2, tokens_));
  tape.take(statistic_ * log_sums_);
  tape.give(partial + 4 * element_ * keys_);
}

void AttentionTape::backward(Tape& tape) const {
  const std::int64_t all = element_ * (queries_ + 2 * keys_);
  if (exchanges_) {  // the result's gradient: sent, received, in sequence
    tape.take(element_ * (own_queries_ + queries_));
    tape.give(element_ * own_queries_);
    tape.take(element_ * queries_);
    tape.give(element_ * (queries_ + own_queries_));
  }
  core_backward(tape);
  tape.give(element_ * queries_);  // the result's gradient
  tape.give(kept());
  if (!exchanges_) return;
  tape.take(3 * all);  // by ranks, sent, received
  tape.give(2 * all);
  tape.take(input());
  tape.pass(2 * statistic_ * own_keys_);
  tape.give(2 * all);
}

void AttentionTape::core_backward(Tape& tape) const {
  const std::int64_t head = width_ * statistic_;
  tape.take(element_ * (queries_ + 2 * keys_));
  tape.take(statistic_ * log_sums_);  // products of result and gradient
  if (ranks_ == 1) {
    tape.pass(backward_work(tokens_, tokens_) + 2 * head * tokens_);
  } else if (gathers_) {
    tape.take(2 * element_ * keys_ * (1 + 2 * ranks_));
    tape.give(2 * element_ * keys_ * (1 + ranks_));
    tape.take(2 * statistic_ * keys_ * ranks_);
    tape.pass(backward_work(tokens_ * ranks_, tokens_));
    tape.pass(2 * statistic_ * keys_ * (1 + ranks_));
    tape.give(2 * ranks_ * keys_ * (element_ + statistic_));
  } else {
    // Keys and values at hand and to come; their gradients at hand, leaving and arriving; those of queries.
    const std::int64_t travelling =
        4 * element_ * keys_ + 6 * statistic_ * keys_ + statistic_ * queries_;
    tape.take(travelling);
    tape.pass(backward_work(tokens_ / 2, 0));
    tape.give(travelling);
  }
  tape.give(statistic_ * log_sums_);
}

}  // namespace trireme::model
