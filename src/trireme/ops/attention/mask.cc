#include "trireme/ops/attention/mask.h"

#include <ATen/ops/empty.h>

#include "trireme/base/error.h"

namespace trireme::ops {
namespace {

Documents empty_documents(std::int64_t samples, std::int64_t tokens) {
  const auto options = at::TensorOptions().dtype(at::kLong);
  return {at::empty({samples, tokens}, options), at::empty({samples, tokens}, options)};
}

const std::int64_t* document_places(const at::Tensor& places, std::int64_t samples,
                                    std::int64_t rows) {
  if (!places.defined()) return nullptr;
  TRIREME_CHECK(places.scalar_type() == at::kLong && places.is_contiguous() && places.dim() == 2 &&
                    places.size(0) == samples && places.size(1) == rows,
                "documents are not int64 [{}, {}]", samples, rows);
  return places.data_ptr<std::int64_t>();
}

}  // namespace

Documents documents_of_lengths(const at::Tensor& cu_seqlens, std::int64_t samples,
                               std::int64_t tokens) {
  const at::Tensor bounds = cu_seqlens.to(at::kLong).contiguous();
  const std::int64_t* const bound = bounds.data_ptr<std::int64_t>();
  const std::int64_t count = bounds.numel(), all = samples * tokens;
  if (bounds.dim() != 1 || count < 1 || bound[0] != 0 || bound[count - 1] != all)
    fail(ErrorKind::kData,
         "cu_seqlens of {} numbers run from {} to {}; they must be one row from 0 to {} x {} = {}",
         count, count > 0 ? bound[0] : 0, count > 0 ? bound[count - 1] : 0, samples, tokens, all);
  const Documents documents = empty_documents(samples, tokens);
  for (std::int64_t d = 0; d + 1 < count; ++d) {
    if (bound[d + 1] < bound[d])
      fail(ErrorKind::kData, "cu_seqlens fall from {} to {} at {}; they are sums of lengths",
           bound[d], bound[d + 1], d + 1);
    for (std::int64_t i = bound[d]; i < bound[d + 1]; ++i) {
      const std::int64_t sample = i / tokens * tokens;
      documents.begin.data_ptr<std::int64_t>()[i] = std::max(bound[d], sample) - sample;
      documents.end.data_ptr<std::int64_t>()[i] = std::min(bound[d + 1], sample + tokens) - sample;
    }
  }
  return documents;
}

RowMask Mask::rows(std::int64_t samples, std::int64_t rows, std::int64_t sequence) const {
  TRIREME_CHECK(block >= 1, "blocks of {} tokens", block);
  TRIREME_CHECK(kind == MaskKind::kCausal || documents.begin.defined() == documents.end.defined(),
                "this mask needs the end of documents as well");
  TRIREME_CHECK(kind == MaskKind::kCausal || window < 0, "a window of {} tokens, not causal",
                window);
  return {.kind = kind,
          .block = block,
          .window = window,
          .sequence = sequence,
          .rows = rows,
          .begins = document_places(documents.begin, samples, rows),
          .ends = document_places(documents.end, samples, rows)};
}

}  // namespace trireme::ops
