#include "trireme/exec/value_moves.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <exception>

#include "trireme/base/error.h"
#include "trireme/comm/tensor_buffer.h"

namespace trireme::exec {

ValueMoves::~ValueMoves() {
  for (const auto& [of_mb, kept] : kept_) {
    try {
      kept.gather.wait();
    } catch (const std::exception&) {
    }
  }
}

Movement ValueMoves::offload(const plan::Instr& line, at::Tensor tensor) {
  Kept kept{.sizes = tensor.sizes().vec(), .options = tensor.options()};
  tensor = tensor.contiguous();
  Movement movement;
  if (line.axes.empty()) {
    const plan::Value& value = plan_.program.values[line.value];
    TRIREME_CHECK(static_cast<std::int64_t>(tensor.nbytes()) <= value.bytes,
                  "value {} has {} bytes, its model declares {}", value.name, tensor.nbytes(),
                  value.bytes);
    movement.write(space_.of_values(), space_.value(line.value, line.mb), std::move(tensor));
  } else {
    const comm::Group& group = groups_.over(line.axes);
    const std::int64_t share = (tensor.numel() + group.size() - 1) / group.size();
    const std::int64_t begin = std::min(share * group.rank(), tensor.numel());
    const std::int64_t count = std::min(share, tensor.numel() - begin);
    kept.part = at::zeros({share}, kept.options);
    kept.part.narrow(0, 0, count).copy_(tensor.view({-1}).narrow(0, begin, count));
  }
  kept_[{line.value, line.mb}] = std::move(kept);
  return movement;
}

Movement ValueMoves::reload(const plan::Instr& line) {
  Kept& kept = kept_.at({line.value, line.mb});
  Movement movement;
  if (line.axes.empty()) {
    movement.read(space_.of_values(), space_.value(line.value, line.mb),
                  at::empty(kept.sizes, kept.options));
    return movement;
  }
  comm::Group& group = groups_.over(line.axes);
  kept.gathered = at::empty({kept.part.numel() * group.size()}, kept.options);
  kept.gather = group.all_gather(comm::buffer(kept.part), comm::buffer(kept.gathered));
  return movement;
}

at::Tensor ValueMoves::finish_reload(const plan::Instr& line, Movement& movement) {
  const auto node = kept_.extract(std::pair(line.value, line.mb));
  TRIREME_CHECK(!node.empty(), "value {} is not away", line.value);
  if (line.axes.empty()) {
    movement.wait();
    return movement.tensor();
  }
  const Kept& kept = node.mapped();
  kept.gather.wait();
  std::int64_t count = 1;
  for (std::int64_t size : kept.sizes) count *= size;
  return kept.gathered.narrow(0, 0, count).view(kept.sizes);
}

}  // namespace trireme::exec
