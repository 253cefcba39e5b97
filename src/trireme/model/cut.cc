#include "trireme/model/cut.h"

#include <algorithm>

#include "trireme/base/error.h"
#include "trireme/model/spec.h"
#include "trireme/plan/mesh/share.h"

namespace trireme::model {
namespace {

// Elements [begin, end) of a dim that a rank holds.
struct Run {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  bool owned = true;
};

// Granules of which a rank has a sharer.
mesh::Share granules(const CutSegment& segment, int rank, int size) {
  return mesh::granules_of(mesh::share(segment.granules * segment.sharers, rank, size),
                           segment.sharers);
}

bool several_hold(const CutSegment& segment, int size) {
  for (int rank = 0; rank < size; ++rank)
    if (mesh::share(segment.granules * segment.sharers, rank, size).begin % segment.sharers != 0)
      return true;
  return false;
}

std::vector<Run> runs_of(const Cut& cut, int rank, int size) {
  std::vector<Run> runs;
  std::int64_t first = 0;  // of the segment
  for (const CutSegment& segment : cut.segments) {
    const mesh::Share mine = granules(segment, rank, size);
    // The first granule belongs to an earlier rank if that has one of its sharers.
    const bool shared =
        mesh::share(segment.granules * segment.sharers, rank, size).begin % segment.sharers != 0;
    const std::int64_t owned = std::min(mine.begin + shared, mine.end);
    if (owned > mine.begin)
      runs.push_back({first + mine.begin * segment.size, first + owned * segment.size, false});
    if (mine.end > owned)
      runs.push_back({first + owned * segment.size, first + mine.end * segment.size, true});
    first += segment.granules * segment.size;
  }
  return runs;
}

std::vector<std::int64_t> local_shape(const ParamSpec& param, const std::vector<Run>& runs) {
  std::vector<std::int64_t> shape = param.shape;
  if (param.cut.dim < 0) return shape;
  std::int64_t& cut = shape[param.cut.dim];
  cut = 0;
  for (const Run& run : runs) cut += run.end - run.begin;
  return shape;
}

std::int64_t product(const std::vector<std::int64_t>& shape) {
  std::int64_t numel = 1;
  for (std::int64_t dim : shape) numel *= dim;
  return numel;
}

bool partial(const Cut& cut, int size) {
  if (size == 1) return false;
  return cut.partial || std::ranges::any_of(cut.segments, [&](const CutSegment& segment) {
           return several_hold(segment, size);
         });
}

}  // namespace

std::int64_t LocalParam::numel() const { return product(shape); }

LocalParam local_param(const ParamSpec& param, int rank, int size) {
  const Cut& cut = param.cut;
  if (cut.dim < 0 || size == 1)
    return {.shape = param.shape,
            .extents = {{.count = param.numel(), .owned = rank == 0}},
            .partial = partial(cut, size)};
  const auto dim = static_cast<std::size_t>(cut.dim);
  std::int64_t tiled = 0;
  for (const CutSegment& segment : cut.segments) tiled += segment.granules * segment.size;
  TRIREME_CHECK(dim < param.shape.size() && tiled == param.shape[dim],
                "the cut of {} covers {} elements of dim {}", param.name, tiled, cut.dim);
  const std::vector<Run> runs = runs_of(cut, rank, size);
  LocalParam local{.shape = local_shape(param, runs), .extents = {}, .partial = partial(cut, size)};
  std::int64_t outer = 1;
  for (std::size_t d = 0; d < dim; ++d) outer *= param.shape[d];
  const std::int64_t inner = param.numel() / outer / param.shape[dim];
  std::int64_t at = 0;
  for (std::int64_t o = 0; o < outer; ++o)
    for (const Run& run : runs) {
      const std::int64_t count = (run.end - run.begin) * inner;
      local.extents.push_back({.global = (o * param.shape[dim] + run.begin) * inner,
                               .local = at,
                               .count = count,
                               .owned = run.owned});
      at += count;
    }
  return local;
}

std::vector<LocalParam> local_params(const UnitSpec& unit, int rank, int size) {
  std::vector<LocalParam> params;
  for (const ParamSpec& param : unit.params) params.push_back(local_param(param, rank, size));
  return params;
}

std::vector<std::vector<Extent>> extents_within(const UnitSpec& unit, int rank, int size,
                                                std::int64_t offset, std::int64_t count) {
  std::vector<std::vector<Extent>> within;
  std::int64_t first = -offset;  // of the parameter
  for (const LocalParam& param : local_params(unit, rank, size)) {
    std::vector<Extent>& extents = within.emplace_back();
    for (const Extent& extent : param.extents) {
      const std::int64_t begin = std::max(first + extent.local, std::int64_t{0});
      const std::int64_t end = std::min(first + extent.local + extent.count, count);
      if (begin < end)
        extents.push_back({.global = extent.global + (begin - first - extent.local),
                           .local = begin,
                           .count = end - begin,
                           .owned = extent.owned});
    }
    first += param.numel();
  }
  return within;
}

std::int64_t largest_numel(const UnitSpec& unit, int size) {
  std::int64_t most = 0;
  for (int rank = 0; rank < size; ++rank) {
    std::int64_t sum = 0;
    for (const ParamSpec& param : unit.params)
      sum +=
          size == 1 ? param.numel() : product(local_shape(param, runs_of(param.cut, rank, size)));
    most = std::max(most, sum);
  }
  return most;
}

std::int64_t partial_numel(const UnitSpec& unit, int size) {
  std::int64_t sum = 0;
  for (const ParamSpec& param : unit.params)
    if (partial(param.cut, size)) sum += param.numel();
  return sum;
}

}  // namespace trireme::model
