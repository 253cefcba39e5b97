// Tables of one row per token of the vocabulary, which tensor-parallel ranks may share by rows.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string_view>

#include "trireme/ops/tensor_parallel.h"

namespace trireme::ops {

// Throws Error{kData}, which calls them `what`, for ids below 0, except `ignored`. If this rank's rows first_row ..
// first_row + rows - 1 are the last, also for ids after them: exactly one rank reports an id outside the vocabulary.
// `ids`: int64, contiguous; on a device they are not checked, because a check would wait for it.
void check_ids(std::string_view what, const at::Tensor& ids, std::optional<std::int64_t> ignored,
               std::int64_t first_row, std::int64_t rows, const TensorParallel& tp);

}  // namespace trireme::ops
