#include "trireme/data/loaders/tokens/cut_tokens.h"

#include <ATen/ops/cat.h>

#include "trireme/plan/mesh/zigzag.h"

namespace trireme::loaders {

std::vector<at::Tensor> cut_tokens(std::vector<at::Tensor> batch, int rank, int ranks) {
  if (ranks == 1) return batch;
  for (at::Tensor& values : batch) {
    const std::int64_t chunk = mesh::zigzag_tokens(values.size(1), ranks) / 2;
    const auto begins = mesh::zigzag_begins(values.size(1), rank, ranks);
    values = at::cat({values.narrow(1, begins[0], chunk), values.narrow(1, begins[1], chunk)}, 1);
  }
  return batch;
}

}  // namespace trireme::loaders
