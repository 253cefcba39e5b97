#include "trireme/model/account/parts.h"

#include <algorithm>
#include <string>

namespace trireme::model {

std::vector<plan::Part> block_parts(const Sizes& sizes, const BlockShape& block) {
  const Sizes::Attention& own = sizes.attention;
  const std::int64_t normed = sizes.rows * sizes.d * sizes.element;
  const std::int64_t result = own.tokens * (own.q * sizes.element + own.heads * sizes.statistic) +
                              sizes.exchanged * sizes.tokens * sizes.q * sizes.element;
  const std::int64_t inner = sizes.tokens * block.inner * sizes.element;
  const double norm_flops = block.norm_flops * static_cast<double>(sizes.rows * sizes.d);
  const bool norms_again = !block.up_trains && block.up_normed;
  const bool keeps_read = !block.up_trains && !block.up_normed;
  // Where rows are shared, their product reads all of them.
  const std::int64_t gathered =
      sizes.rows < sizes.tokens ? sizes.tokens * sizes.d * sizes.element : 0;
  return {{.name = std::string(kNorms),
           .saved_bytes = block.norms * normed,
           .work_bytes = normed,  // one after the other
           .flops = block.norms * norm_flops},
          {.name = std::string(kAttention),
           .saved_bytes = block.attended * result,
           .work_bytes = block.attended * result,
           .flops = block.attended * block.attention_flops},
          {.name = std::string(kMlp),
           .saved_bytes = std::max(std::int64_t{0}, inner - keeps_read * normed),
           .work_bytes = inner + gathered + norms_again * normed,
           .flops = block.inner_flops + norms_again * norm_flops}};
}

std::vector<plan::Part> head_parts(const Sizes& sizes, double flops, bool weight_trains) {
  const auto logits = [&](std::int64_t columns) { return sizes.tokens * columns * sizes.element; };
  const std::int64_t input = weight_trains ? 0 : sizes.rows * sizes.d * sizes.element;
  return {{.name = std::string(kLogits),
           .saved_bytes = std::max(std::int64_t{0}, logits(sizes.vocab) - input),
           .work_bytes = logits(std::min(sizes.vocab, kLogitColumns)),  // a segment of them
           .flops = flops,
           .whole = true}};
}

}  // namespace trireme::model
