// TokenLoader: windows of a token stream as batches for next-token prediction.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "trireme/data/loaders/sample_order.h"
#include "trireme/data/text/token_file.h"

namespace trireme::loaders {

inline constexpr std::int64_t kIgnoredTarget = -100;  // as the field marks targets without loss

// Training samples: the stream is cut into windows of seq_len tokens (each predicts the token after it), in shuffled
// order. Every epoch cuts at another offset. Throws Error{kData} when the stream is shorter than two windows or holds a
// token outside [0, vocab).
class TokenLoader {
 public:
  // documents: batches have `positions` as well.
  TokenLoader(const text::TokenFile& tokens, std::int64_t seq_len, std::int64_t vocab,
              std::uint64_t seed, bool documents = false);

  std::int64_t samples_per_epoch() const { return samples_; }

  // {tokens, targets}, both int64 [count, seq_len], of samples `first` .. `first + count - 1` in the order of
  // consumption. Also positions of the same shape, of tokens within the part of their document that the sample has.
  std::vector<at::Tensor> batch(std::int64_t first, std::int64_t count) const;

 private:
  const text::TokenFile& tokens_;
  std::int64_t seq_len_;
  std::int64_t vocab_;
  std::uint64_t seed_;
  bool documents_;
  std::int64_t samples_;
  SampleOrder order_;
};

// Evaluation samples: windows in stream order from its start; the last one is filled up with ignored
// targets, as are samples beyond the end.
class EvaluationLoader {
 public:
  EvaluationLoader(const text::TokenFile& tokens, std::int64_t seq_len, std::int64_t vocab,
                   bool documents = false);

  std::int64_t samples() const { return samples_; }
  // Targets with loss among samples first .. first + count - 1.
  std::int64_t valid_tokens(std::int64_t first, std::int64_t count) const;
  std::vector<at::Tensor> batch(std::int64_t first, std::int64_t count) const;

 private:
  const text::TokenFile& tokens_;
  std::int64_t seq_len_;
  std::int64_t vocab_;
  bool documents_;
  std::int64_t samples_;
};

}  // namespace trireme::loaders
