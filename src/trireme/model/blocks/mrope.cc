#include "trireme/model/blocks/mrope.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <span>

#include "trireme/config/mrope.h"
#include "trireme/families/llama/keys_attention.h"

namespace trireme::blocks {

ops::RotaryTable decoder_rotary(const config::Job& job, at::Device device) {
  return decoder_rotary(job, config::rope_of(job), device);
}

ops::RotaryTable decoder_rotary(const config::Job& job, const config::Rope& rope, at::Device device,
                                double factor) {
  const auto table = [&](std::span<const double> frequencies, double amplitude) {
    return ops::rotary_table(job.model.seq_len, frequencies, amplitude,
                             job.precision.compute == DType::kF64 ? at::kDouble : at::kFloat)
        .to(device);
  };
  const auto turning = std::ranges::find(rope.frequencies, 0.0) - rope.frequencies.begin();
  const std::span<const double> all(rope.frequencies);
  const ops::RotaryTable turned = table(all.first(turning), rope.amplitude * factor);
  if (turning == std::ssize(all)) return turned;
  // Channels that do not turn keep their length.
  const ops::RotaryTable still = table(all.subspan(turning), factor);
  return {.cosines = at::cat({turned.cosines, still.cosines}, 1),
          .sines = at::cat({turned.sines, still.sines}, 1)};
}

DecoderTables decoder_tables(const config::Job& job, at::Device device) {
  const double factor = config::score_factor(job);
  const auto both = [&](const config::Rope& rope) {
    const ops::RotaryTable keys = decoder_rotary(job, rope, device);
    return DecoderTables::Both{factor == 1 ? keys : decoder_rotary(job, rope, device, factor),
                               keys};
  };
  DecoderTables tables;
  tables.full = both(config::rope_of(job));
  tables.sliding = job.llama.sliding_theta == 0 ? tables.full : both(config::sliding_rope_of(job));
  return tables;
}

at::Tensor frequency_axes(const config::Job& job) {
  if (job.vlm.mrope.empty()) return {};
  return at::tensor(config::axes(config::parse_mrope(job.vlm.mrope)), at::kLong);
}

ops::RotaryTable by_axes(const ops::RotaryTable& table, const at::Tensor& positions,
                         const at::Tensor& axes) {
  const ops::RotaryTable each = table.at(positions.flatten());  // a row for every axis
  const auto chosen = [&](const at::Tensor& rows) {
    const std::int64_t width = rows.size(1);
    const at::Tensor by_axis = rows.view({-1, 3, width});
    const at::Tensor axis = axes.to(rows.device()).expand({by_axis.size(0), 1, width});
    return by_axis.gather(1, axis).squeeze(1).contiguous();
  };
  return {.cosines = chosen(each.cosines), .sines = chosen(each.sines)};
}

at::Tensor turned_each(const at::Tensor& x, const ops::RotaryTable& rows) {
  return ops::rotary(x.reshape({1, -1, x.size(2)}), rows).view(x.sizes());
}

}  // namespace trireme::blocks
