// Mesh: how the ranks of a world are arranged along the axes of parallelism.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/plan/mesh/axis.h"

namespace trireme::mesh {

// How many ranks stand along each axis.
struct Degrees {
  int pp = 1;
  int dp_replicate = 1;
  int dp_shard = 1;
  int cp = 1;
  int tp = 1;
  int island = 1;  // of which each has dp_replicate replicas
  bool operator==(const Degrees&) const = default;
};

// Position of a rank, indexed by Axis through at().
struct Coordinates {
  std::array<int, kAllAxes.size()> along{};

  int& at(Axis axis) { return along[static_cast<std::size_t>(axis)]; }
  int at(Axis axis) const { return along[static_cast<std::size_t>(axis)]; }
  bool operator==(const Coordinates&) const = default;
};

// A dense grid of ranks 0 .. world-1; rank order runs from tp (innermost) over cp, dp_shard,
// dp_replicate and island to pp (outermost). A value: cheap to copy and to compare.
class Mesh {
 public:
  Mesh() = default;
  // Throws Error{kUsage} when a degree is below 1 or the world exceeds kMaxWorld.
  explicit Mesh(const Degrees& degrees);

  static constexpr int kMaxWorld = 1 << 20;

  int degree(Axis axis) const { return degrees_.at(axis); }
  // Ranks in a group over these axes: the product of their degrees.
  int degree(AxisSet axes) const;
  // Those of the axes along which there is more than one rank.
  AxisSet real(AxisSet axes) const;
  int world() const { return degree(kWorld); }

  Coordinates coordinates(int rank) const;
  int coordinate(int rank, Axis axis) const { return coordinates(rank).at(axis); }
  int rank(const Coordinates& at) const;

  // World ranks that share every coordinate with `rank` except those along `axes`, in rank order.
  std::vector<int> group(int rank, AxisSet axes) const;
  // Index of `rank` in that group: group(rank, axes)[index_in_group(rank, axes)] == rank.
  int index_in_group(int rank, AxisSet axes) const;
  // Every group over `axes` once, ordered by its first rank.
  std::vector<std::vector<int>> groups(AxisSet axes) const;

  // The rank with coordinate `index` along `axis` and all others as `rank` has them.
  int peer(int rank, Axis axis, int index) const;

  bool operator==(const Mesh&) const = default;

 private:
  Coordinates degrees_{{1, 1, 1, 1, 1, 1}};
};

// "pp1.dp_replicate1.dp_shard4.cp1.tp1"; several islands come after pp, as in "pp1.island2.dp_replicate1..".
std::string print(const Mesh& mesh);

// Inverse of print; throws Error{kData} for another form, Error{kUsage} above kMaxWorld ranks.
Mesh parse_mesh(std::string_view text);

}  // namespace trireme::mesh
