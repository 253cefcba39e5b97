#include "trireme/model/account/attention_tape.h"

#include "trireme/config/head_width.h"

namespace trireme::model {

AttentionTape::AttentionTape(const config::Model& model, const Sizes& sizes, const PerRank& rank)
    : ranks_(rank.cp / rank.exchanging()),
      exchanges_(sizes.exchanged),
      gathers_(rank.cp > 1 && rank.context == config::ContextMethod::kAllGather),
      width_(config::head_width(model)),
      element_(sizes.element),
      statistic_(sizes.statistic),
      scratch_{.width = width_,
               .element = element_,
               .sum = statistic_,
               .pairs = rank.compute == DType::kBF16,
               .product = sizes.added_product},
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

void AttentionTape::forward(Tape& tape) const {
  const std::int64_t all = element_ * (queries_ + 2 * keys_);
  if (exchanges_) {
    Held sent(tape, all), received(tape, all);
    sent.give();
    Held in_sequence(tape, all);
    received.give();
    in_sequence.keep();  // for backward
  }
  core_forward(tape);
  if (exchanges_) {  // the result
    Held by_ranks(tape, element_ * queries_), sent(tape, element_ * queries_),
        received(tape, element_ * own_queries_);
    by_ranks.give();
    Held by_heads(tape, element_ * own_queries_);
    sent.give();
    received.give();
    by_heads.keep();
  }
}

void AttentionTape::core_forward(Tape& tape) const {
  Held result(tape, element_ * queries_);
  result.keep();
  if (ranks_ == 1) {
    keep_log_sums(tape);
    return tape.pass(scratch_.forward(tokens_, tokens_));
  }
  const std::int64_t keys_and_values = 2 * element_ * keys_;
  if (gathers_) {
    Held own(tape, keys_and_values), by_ranks(tape, keys_and_values * ranks_),
        in_sequence(tape, keys_and_values * ranks_);
    own.give();
    by_ranks.give();
    keep_log_sums(tape);
    tape.pass(scratch_.forward(tokens_ * ranks_, tokens_ * ranks_));
    return in_sequence.give();
  }
  Held sums(tape, statistic_ * queries_), tops_and_weights(tape, 2 * statistic_ * log_sums_);
  Held at_hand(tape, keys_and_values), arriving(tape, keys_and_values);
  tape.pass(scratch_.forward(tokens_ / 2, tokens_));
  keep_log_sums(tape);
  for (Held* held : {&sums, &tops_and_weights, &at_hand, &arriving}) held->give();
}

void AttentionTape::keep_log_sums(Tape& tape) const { Held(tape, statistic_ * log_sums_).keep(); }

void AttentionTape::backward(Tape& tape) const {
  const std::int64_t all = element_ * (queries_ + 2 * keys_);
  if (exchanges_) {  // the result's gradient
    Held sent(tape, element_ * own_queries_), received(tape, element_ * queries_);
    tape.give(element_ * own_queries_);
    Held in_sequence(tape, element_ * queries_);
    sent.give();
    received.give();
    in_sequence.keep();
  }
  core_backward(tape);
  tape.give(element_ * queries_);  // the result's gradient
  tape.give(kept());
  if (!exchanges_) return;
  Held by_ranks(tape, all), sent(tape, all), received(tape, all);
  tape.give(all);  // gradients of the heads that were computed
  sent.give();
  Held gradient(tape, input());
  tape.pass(2 * statistic_ * own_keys_);
  by_ranks.give();
  received.give();
  gradient.keep();
}

void AttentionTape::core_backward(Tape& tape) const {
  Held gradients(tape, element_ * (queries_ + 2 * keys_));
  gradients.keep();
  Held delta(tape, statistic_ * log_sums_);  // products of result and gradient
  const std::int64_t keys_and_values = 2 * element_ * keys_, their_sums = 2 * statistic_ * keys_;
  if (ranks_ == 1) {
    tape.pass(scratch_.backward(tokens_, tokens_) + 2 * width_ * statistic_ * tokens_);
  } else if (gathers_) {
    Held own(tape, keys_and_values), by_ranks(tape, keys_and_values * ranks_),
        in_sequence(tape, keys_and_values * ranks_);
    own.give();
    by_ranks.give();
    Held sums(tape, their_sums * ranks_);
    tape.pass(scratch_.backward(tokens_ * ranks_, tokens_));
    tape.pass(their_sums * (1 + ranks_));  // by ranks, and this rank's
    sums.give();
    in_sequence.give();
  } else {
    Held at_hand(tape, keys_and_values), arriving(tape, keys_and_values);
    Held sums_at_hand(tape, their_sums), sums_leaving(tape, their_sums),
        sums_arriving(tape, their_sums), sums_of_queries(tape, statistic_ * queries_);
    tape.pass(scratch_.backward(tokens_ / 2, 0));
    for (Held* held :
         {&at_hand, &arriving, &sums_at_hand, &sums_leaving, &sums_arriving, &sums_of_queries})
      held->give();
  }
  delta.give();
}

}  // namespace trireme::model
