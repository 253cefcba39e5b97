#include "trireme/ops/vocabulary.h"

#include "trireme/ops/dispatch.h"

namespace trireme::ops {

void check_ids(std::string_view what, const at::Tensor& ids, std::optional<std::int64_t> ignored,
               std::int64_t first_row, std::int64_t rows, const TensorParallel& tp) {
  if (!ids.is_cpu()) return;
  const bool last = tp.rank() + 1 == tp.size();
  const std::int64_t* const id = elements<std::int64_t>(ids);
  for (std::int64_t i = 0; i < ids.numel(); ++i) {
    if (id[i] == ignored || (id[i] >= 0 && (!last || id[i] < first_row + rows))) continue;
    fail(ErrorKind::kData,
         "{} {} at position {} is outside the model's vocabulary{}; prepare the data with this "
         "model's tokenizer, or raise model.vocab",
         what, id[i], i, last ? fmt::format(" of {}", first_row + rows) : "");
  }
}

}  // namespace trireme::ops
