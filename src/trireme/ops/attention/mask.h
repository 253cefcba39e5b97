// Masks of attention.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "trireme/ops/kernels/score_tiles.h"

namespace trireme::ops {

// Documents that share a sample: int64 [samples, tokens], the position in the sample where the token's document begins,
// and one past its last token.
struct Documents {
  at::Tensor begin;
  at::Tensor end;
};

// From the prefix sums 0 .. samples * tokens of the documents' lengths over all samples, one after the other (int32 or
// int64, one dim). A document that crosses the end of a sample is cut there. Throws Error{kData} for others.
Documents documents_of_lengths(const at::Tensor& cu_seqlens, std::int64_t samples,
                               std::int64_t tokens);

// Which keys a query sees, by position in the sequence.
struct Mask {
  MaskKind kind = MaskKind::kCausal;
  std::int64_t block = 1;
  // Documents of the queries' tokens, which see nothing outside of their own; undefined: the sequence is one. Under
  // context parallelism of this rank's tokens. Causal masks need no end.
  Documents documents{};
  std::int64_t window = -1;  // of causal masks

  // With a window a token sees itself and so many tokens before it (Beltagy et al. 2020); below 0 it sees all before.
  static Mask causal(Documents documents = {}, std::int64_t window = -1) {
    return {.documents = std::move(documents), .window = window};
  }
  static Mask full(Documents documents = {}) {
    return {.kind = MaskKind::kFull, .documents = std::move(documents)};
  }
  // A token sees its own block of `tokens` tokens, counted from the begin of its document, and all before (Assran et al.
  // 2025, V-JEPA 2-AC).
  static Mask block_causal(std::int64_t tokens, Documents documents = {}) {
    return {.kind = MaskKind::kBlockCausal, .block = tokens, .documents = std::move(documents)};
  }

  // For `samples` of `rows` queries each in a sequence of `sequence` tokens; must not outlive the mask. Checks the
  // documents' shapes.
  RowMask rows(std::int64_t samples, std::int64_t rows, std::int64_t sequence) const;
};

}  // namespace trireme::ops
