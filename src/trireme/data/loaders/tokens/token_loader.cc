#include "trireme/data/loaders/tokens/token_loader.h"

#include <ATen/ops/full.h>

#include <algorithm>

#include "trireme/base/error.h"
#include "trireme/base/hash.h"

namespace trireme::loaders {
namespace {

struct Rows {
  at::Tensor tokens;
  at::Tensor targets;
  at::Tensor positions;  // undefined if documents do not matter

  std::vector<at::Tensor> batch() const {
    if (!positions.defined()) return {tokens, targets};
    return {tokens, targets, positions};
  }
};

Rows make_rows(std::int64_t count, std::int64_t seq_len, bool documents) {
  const at::TensorOptions options = at::TensorOptions().dtype(at::kLong);
  return {.tokens = at::full({count, seq_len}, 0, options),
          .targets = at::full({count, seq_len}, kIgnoredTarget, options),
          .positions = documents ? at::full({count, seq_len}, 0, options) : at::Tensor()};
}

// Positions of the `length` tokens from `first` on; a document that began earlier begins here.
void fill_positions(std::int64_t* positions, const text::TokenFile& file, std::int64_t first,
                    std::int64_t length) {
  std::int64_t document = file.document_of(first);
  std::int64_t begin = first;
  for (std::int64_t token = first; token < first + length; ++token) {
    text::TokenRange range = file.document(document);
    while (token >= range.first + range.count) {
      range = file.document(++document);
      begin = token;
    }
    *positions++ = token - begin;
  }
}

// Fills one row with the `length` tokens from `first` on and the tokens that follow each.
void fill_row(Rows& rows, std::int64_t row, const text::TokenFile& file, std::int64_t first,
              std::int64_t length, std::int64_t vocab) {
  std::vector<std::int64_t> window(static_cast<std::size_t>(length + 1));
  file.read(first, std::span<std::int64_t>(window));
  for (std::size_t i = 0; i < window.size(); ++i)
    if (window[i] < 0 || window[i] >= vocab)
      fail(ErrorKind::kData,
           "the dataset holds token {} at position {}, outside the model's vocabulary of {}; set "
           "model.vocab or prepare the data with the model's tokenizer",
           window[i], first + static_cast<std::int64_t>(i), vocab);
  const std::int64_t seq_len = rows.tokens.size(1);
  std::copy_n(window.begin(), length, rows.tokens.data_ptr<std::int64_t>() + row * seq_len);
  std::copy_n(window.begin() + 1, length, rows.targets.data_ptr<std::int64_t>() + row * seq_len);
  if (rows.positions.defined())
    fill_positions(rows.positions.data_ptr<std::int64_t>() + row * seq_len, file, first, length);
}

// Every offset below seq_len must leave this many whole windows and one token to predict.
std::int64_t windows(const text::TokenFile& tokens, std::int64_t seq_len) {
  const std::int64_t count = (tokens.tokens() - seq_len) / seq_len;
  if (count < 1)
    fail(ErrorKind::kData,
         "the training split has {} tokens, too few for model.seq_len {}: it needs {} or more",
         tokens.tokens(), seq_len, 2 * seq_len);
  return count;
}

}  // namespace

TokenLoader::TokenLoader(const text::TokenFile& tokens, std::int64_t seq_len, std::int64_t vocab,
                         std::uint64_t seed, bool documents)
    : tokens_(tokens),
      seq_len_(seq_len),
      vocab_(vocab),
      seed_(seed),
      documents_(documents),
      samples_(windows(tokens, seq_len)),
      order_(samples_, seed) {}

std::vector<at::Tensor> TokenLoader::batch(std::int64_t first, std::int64_t count) const {
  Rows rows = make_rows(count, seq_len_, documents_);
  for (std::int64_t row = 0; row < count; ++row) {
    const SampleOrder::Place place = order_.at(first + row);
    const std::uint64_t key = mix(mix(seed_, 0x0FF5E7), static_cast<std::uint64_t>(place.epoch));
    const auto offset = static_cast<std::int64_t>(key % static_cast<std::uint64_t>(seq_len_));
    fill_row(rows, row, tokens_, place.sample * seq_len_ + offset, seq_len_, vocab_);
  }
  return rows.batch();
}

EvaluationLoader::EvaluationLoader(const text::TokenFile& tokens, std::int64_t seq_len,
                                   std::int64_t vocab, bool documents)
    : tokens_(tokens),
      seq_len_(seq_len),
      vocab_(vocab),
      documents_(documents),
      samples_((std::max(tokens.tokens() - 1, std::int64_t{0}) + seq_len - 1) / seq_len) {}

std::int64_t EvaluationLoader::valid_tokens(std::int64_t first, std::int64_t count) const {
  const std::int64_t all = std::max(tokens_.tokens() - 1, std::int64_t{0});
  const std::int64_t begin = std::min(first * seq_len_, all);
  return std::min((first + count) * seq_len_, all) - begin;
}

std::vector<at::Tensor> EvaluationLoader::batch(std::int64_t first, std::int64_t count) const {
  Rows rows = make_rows(count, seq_len_, documents_);
  for (std::int64_t row = 0; row < count; ++row) {
    const std::int64_t valid = valid_tokens(first + row, 1);
    if (valid > 0) fill_row(rows, row, tokens_, (first + row) * seq_len_, valid, vocab_);
  }
  return rows.batch();
}

}  // namespace trireme::loaders
