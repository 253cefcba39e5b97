// How tensor parallelism cuts parameters: which elements of a global tensor each tp rank holds.
#pragma once

#include <cstdint>
#include <vector>

namespace trireme::model {

struct ParamSpec;
struct UnitSpec;

// A segment of a dim: `granules` of `size` elements that are never cut, such as heads. Ranks divide granules * sharers
// things among them. A granule belongs to every rank that has one of its `sharers`, such as the query heads that read
// one key-value head.
struct CutSegment {
  std::int64_t granules = 0;
  std::int64_t size = 1;
  std::int64_t sharers = 1;
};

// The segments tile the dim, and each is shared out by itself: fused query, key and value are three.
struct Cut {
  int dim = -1;  // -1: every rank holds all of it
  std::vector<CutSegment> segments{};
  bool partial = false;  // each rank's gradient is a part of the sum (its tokens')
};

// Elements [local, local + count) of what a rank holds are elements [global, global + count) of the
// parameter. One rank owns each: the first that holds it.
struct Extent {
  std::int64_t global = 0;
  std::int64_t local = 0;
  std::int64_t count = 0;
  bool owned = true;
};

// Part of one parameter on a tp rank.
struct LocalParam {
  std::vector<std::int64_t> shape;
  std::vector<Extent> extents;  // ascending; they tile the local elements
  bool partial = false;         // on some rank lies another part of an element's gradient

  std::int64_t numel() const;
};
LocalParam local_param(const ParamSpec& param, int rank, int size);

// The parameters of a unit, in its order.
std::vector<LocalParam> local_params(const UnitSpec& unit, int rank, int size);

// Elements of each whole parameter in [offset, offset + count) of a unit as a rank holds it; `local` counts from
// `offset`.
std::vector<std::vector<Extent>> extents_within(const UnitSpec& unit, int rank, int size,
                                                std::int64_t offset, std::int64_t count);

// Elements of a unit on the rank that holds most.
std::int64_t largest_numel(const UnitSpec& unit, int size);
// Elements, counted whole, of the parameters with partial gradients.
std::int64_t partial_numel(const UnitSpec& unit, int size);

}  // namespace trireme::model
