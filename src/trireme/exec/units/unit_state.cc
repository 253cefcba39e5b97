#include "trireme/exec/units/unit_state.h"

#include <ATen/ops/empty.h>
#include <c10/util/BFloat16.h>

#include "trireme/base/error.h"
#include "trireme/exec/units/masters.h"

namespace trireme::exec {
namespace {

// Sum over one chunk with eight running sums, whose order depends on the chunk's length alone.
template <typename T>
double square_sum(const T* values, std::int64_t count) {
  constexpr int kLanes = 8;
  double sums[kLanes] = {};
  for (std::int64_t i = 0; i < count; i += kLanes)
    for (int lane = 0; lane < kLanes; ++lane) {
      const double value = static_cast<double>(values[i + lane]);
      sums[lane] += value * value;
    }
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

template <typename T>
std::vector<double> chunk_sums_on_host(const UnitState& unit, const Flat& all) {
  std::vector<double> sums;
  std::vector<T> owned;
  for (std::int64_t begin = 0; begin < all.count(); begin += unit.chunk) {
    const T* values = static_cast<const T*>(all.at(begin));
    const std::int64_t first = unit.part_begin + begin;
    for (const auto& [from, to] : unit.foreign) {
      if (to <= first || from >= first + unit.chunk) continue;
      if (values != owned.data()) owned.assign(values, values + unit.chunk);
      values = owned.data();
      std::fill(owned.begin() + std::max(from - first, std::int64_t{0}),
                owned.begin() + std::min(to - first, unit.chunk), T(0));
    }
    sums.push_back(square_sum(values, unit.chunk));
  }
  return sums;
}

std::vector<double> chunk_sums_on_device(const UnitState& unit, const Flat& all) {
  const at::Tensor wide = all.tensor(0, all.count()).to(at::kDouble, false, /*copy=*/true);
  const std::int64_t end = unit.part_begin + wide.numel();
  for (const auto& [from, to] : unit.foreign) {
    const std::int64_t first = std::max(from, unit.part_begin), last = std::min(to, end);
    if (first < last) wide.narrow(0, first - unit.part_begin, last - first).zero_();
  }
  const at::Tensor sums = wide.square_().view({-1, unit.chunk}).sum(1).cpu();
  return {sums.data_ptr<double>(), sums.data_ptr<double>() + sums.numel()};
}

// Elements of split masters that are put together at a time: they stay in a core's cache, or make a device's launch
// worth it. Whole blocks of 8-bit states.
constexpr std::int64_t kHostPiece = 1 << 16, kDevicePiece = 1 << 24;

}  // namespace

at::Tensor UnitState::stepped(std::int64_t begin, std::int64_t count) const {
  if (!split) return master ? master.tensor(begin, count) : computed(begin, count);
  at::Tensor values =
      at::empty({count}, at::TensorOptions().dtype(at::kFloat).device(master.device()));
  join_masters(computed(begin, count), master.tensor(begin, count), values);
  return values;
}

void UnitState::set_stepped(std::int64_t begin, const at::Tensor& values) {
  const std::int64_t count = values.numel();
  if (split) return split_masters(values, computed(begin, count), master.tensor(begin, count));
  if (master) master.tensor(begin, count).copy_(values);
  if (!codes) round_masters(values, computed(begin, count));
}

void UnitState::change_stepped(
    const std::function<void(std::int64_t begin, at::Tensor values)>& change) {
  if (!split) return change(0, stepped(0, part_count));
  const std::int64_t piece = master.on_host() ? kHostPiece : kDevicePiece;
  for (std::int64_t begin = 0; begin < part_count; begin += piece) {
    const at::Tensor values = stepped(begin, std::min(piece, part_count - begin));
    change(begin, values);
    set_stepped(begin, values);
  }
}

std::vector<std::pair<Flat*, FlatShape>> UnitState::state_flats() {
  std::vector<std::pair<Flat*, FlatShape>> flats;
  if (master_copy) flats.emplace_back(&master, state_shapes[0]);
  for (Flat& state : states) flats.emplace_back(&state, state_shapes[flats.size()]);
  return flats;
}

at::Tensor UnitState::computed(std::int64_t begin, std::int64_t count) const {
  return sharing.gathers ? part.tensor(begin, count) : full.tensor(part_begin + begin, count);
}

void UnitState::follow_stepped() {
  stale = sharing.gathers_after;
  if (master_copy && !split) round_master();
}

void UnitState::keep_in_bounds(std::int64_t begin, const at::Tensor& values) const {
  for (const UpdateSegment& segment : segments_of(begin, begin + values.numel()))
    if (segment.bounds != model::Bounds{})
      values.narrow(0, segment.begin, segment.end - segment.begin)
          .clamp_(segment.bounds.lower, segment.bounds.upper);
}

Flat UnitState::collapse() {
  GradientCounter sums;
  for (ChunkGradient& chunk : chunks) {
    if (Flat& sum = chunk.reduced(/*each_mb=*/false); sum) sums.push(std::exchange(sum, Flat()));
  }
  TRIREME_CHECK(!sums.empty(), "unit {} has no gradient", spec->name);
  return sums.collapse();
}

std::vector<UpdateSegment> UnitState::part_segments() const {
  std::vector<UpdateSegment> found;
  const auto add = [&](std::int64_t global, std::int64_t local, std::int64_t count,
                       const model::ParamSpec& param) {
    const std::int64_t begin = std::max(local - part_begin, std::int64_t{0});
    const std::int64_t end = std::min(local + count - part_begin, part_count);
    if (begin >= end) return;
    const std::int64_t first = global + (part_begin + begin - local);
    if (!found.empty()) {
      UpdateSegment& last = found.back();
      const bool follows = last.end == begin && last.first + (last.end - last.begin) == first;
      if (follows && last.decay == param.decay && last.lr == param.lr &&
          last.bounds == param.bounds) {
        last.end = end;
        return;
      }
    }
    found.push_back({.begin = begin,
                     .end = end,
                     .decay = param.decay,
                     .first = first,
                     .lr = param.lr,
                     .bounds = param.bounds});
  };
  std::int64_t before = 0;  // elements of the whole unit before the parameter
  for (std::size_t i = 0; i < params_here.size(); ++i) {
    for (const model::Extent& extent : params_here[i].extents)
      add(before + extent.global, offsets[i] + extent.local, extent.count, spec->params[i]);
    before += spec->params[i].numel();
  }
  return found;
}

std::vector<UpdateSegment> UnitState::segments_of(std::int64_t begin, std::int64_t end) const {
  std::vector<UpdateSegment> found;
  auto segment = std::ranges::upper_bound(segments, begin, {}, &UpdateSegment::end);
  for (; segment != segments.end() && segment->begin < end; ++segment) {
    const std::int64_t from = std::max(begin, segment->begin);
    found.push_back({.begin = from - begin,
                     .end = std::min(end, segment->end) - begin,
                     .decay = segment->decay,
                     .first = segment->first + (from - segment->begin),
                     .lr = segment->lr,
                     .bounds = segment->bounds});
  }
  return found;
}

std::vector<double> UnitState::chunk_square_sums(const Flat& values) const {
  if (!values.on_host()) return chunk_sums_on_device(*this, values);
  switch (values.type()) {
    case DType::kF64: return chunk_sums_on_host<double>(*this, values);
    case DType::kBF16: return chunk_sums_on_host<c10::BFloat16>(*this, values);
    default: return chunk_sums_on_host<float>(*this, values);
  }
}

void UnitState::place(std::int64_t first, const at::Tensor& value) {
  const std::int64_t begin = std::max(first, part_begin);
  const std::int64_t end = std::min(first + value.numel(), part_begin + part_count);
  if (!sharing.gathers) round_masters(value, full.tensor(first, value.numel()));
  if (begin < end) set_stepped(begin - part_begin, value.narrow(0, begin - first, end - begin));
}

void UnitState::copy_parts(const Flat& gradient, const Flat& parts, bool back) const {
  std::int64_t first = 0;  // of the parameter in `parts`
  for (std::size_t index = 0; index < params_here.size(); ++index) {
    if (!params_here[index].partial) continue;
    const std::int64_t numel = spec->params[index].numel();
    for_ranges(index, 0, numel, [&](std::int64_t global, std::int64_t local, std::int64_t count) {
      const at::Tensor a = gradient.tensor(local, count);
      const at::Tensor b = parts.tensor(first + global, count);
      (back ? a : b).copy_(back ? b : a);
    });
    first += numel;
  }
}

}  // namespace trireme::exec
