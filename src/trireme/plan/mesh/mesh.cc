#include "trireme/plan/mesh/mesh.h"

#include <algorithm>
#include <charconv>
#include <cstdint>

#include "trireme/base/error.h"

namespace trireme::mesh {
namespace {

constexpr std::array kFromOutermost = {Axis::kPp,      Axis::kIsland, Axis::kDpReplicate,
                                       Axis::kDpShard, Axis::kCp,     Axis::kTp};

}  // namespace

Mesh::Mesh(const Degrees& degrees)
    : degrees_{{degrees.tp, degrees.cp, degrees.dp_shard, degrees.dp_replicate, degrees.island,
                degrees.pp}} {
  std::int64_t world = 1;
  for (Axis axis : kAllAxes) {
    const int degree = degrees_.at(axis);
    if (degree < 1)
      fail(ErrorKind::kUsage, "mesh axis {} has {} ranks; needs 1 or more", name(axis), degree);
    world *= degree;
    if (world > kMaxWorld)
      fail(ErrorKind::kUsage, "mesh {} has more than {} ranks; lower a degree", print(*this),
           kMaxWorld);
  }
}

int Mesh::degree(AxisSet axes) const {
  int product = 1;
  for (Axis axis : kAllAxes)
    if (axes.contains(axis)) product *= degree(axis);
  return product;
}

AxisSet Mesh::real(AxisSet axes) const {
  AxisSet more;
  for (Axis axis : kAllAxes)
    if (axes.contains(axis) && degree(axis) > 1) more = more | axis;
  return more;
}

Coordinates Mesh::coordinates(int rank) const {
  TRIREME_CHECK(rank >= 0 && rank < world(), "rank {} of mesh {}", rank, print(*this));
  Coordinates at;
  for (Axis axis : kAllAxes) {
    at.at(axis) = rank % degree(axis);
    rank /= degree(axis);
  }
  return at;
}

int Mesh::rank(const Coordinates& at) const {
  int rank = 0;
  for (Axis axis : kFromOutermost) {
    TRIREME_CHECK(at.at(axis) >= 0 && at.at(axis) < degree(axis), "{} coordinate {} of mesh {}",
                  name(axis), at.at(axis), print(*this));
    rank = rank * degree(axis) + at.at(axis);
  }
  return rank;
}

std::vector<int> Mesh::group(int rank, AxisSet axes) const {
  const Coordinates mine = coordinates(rank);
  const int size = degree(axes);
  std::vector<int> ranks;
  ranks.reserve(static_cast<std::size_t>(size));
  for (int index = 0; index < size; ++index) {
    Coordinates at = mine;
    int left = index;
    for (Axis axis : kAllAxes) {
      if (!axes.contains(axis)) continue;
      at.at(axis) = left % degree(axis);
      left /= degree(axis);
    }
    ranks.push_back(this->rank(at));
  }
  return ranks;
}

int Mesh::index_in_group(int rank, AxisSet axes) const {
  const Coordinates mine = coordinates(rank);
  int index = 0;
  for (Axis axis : kFromOutermost)
    if (axes.contains(axis)) index = index * degree(axis) + mine.at(axis);
  return index;
}

std::vector<std::vector<int>> Mesh::groups(AxisSet axes) const {
  std::vector<std::vector<int>> all;
  for (int rank = 0; rank < world(); ++rank)
    if (index_in_group(rank, axes) == 0) all.push_back(group(rank, axes));
  return all;
}

int Mesh::peer(int rank, Axis axis, int index) const {
  Coordinates at = coordinates(rank);
  at.at(axis) = index;
  return this->rank(at);
}

std::string print(const Mesh& mesh) {
  std::string text;
  for (Axis axis : kFromOutermost) {
    if (axis == Axis::kIsland && mesh.degree(axis) == 1) continue;
    if (!text.empty()) text += '.';
    text += fmt::format("{}{}", name(axis), mesh.degree(axis));
  }
  return text;
}

Mesh parse_mesh(std::string_view text) {
  constexpr std::string_view kForm = "pp1.dp_replicate1.dp_shard4.cp1.tp1";
  Coordinates degrees;
  std::string_view rest = text;
  for (Axis axis : kFromOutermost) {
    const bool last = axis == kAllAxes.front();
    int& degree = degrees.at(axis);
    if (axis == Axis::kIsland && !rest.starts_with(name(axis))) {
      degree = 1;
      continue;
    }
    if (rest.starts_with(name(axis))) rest.remove_prefix(name(axis).size());
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), degree);
    rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
    if (!last && rest.starts_with('.')) rest.remove_prefix(1);
    if (error != std::errc() || degree < 1) degree = 0;
  }
  const bool positive = std::ranges::all_of(degrees.along, [](int d) { return d > 0; });
  if (positive) {
    const Mesh mesh({.pp = degrees.at(Axis::kPp),
                     .dp_replicate = degrees.at(Axis::kDpReplicate),
                     .dp_shard = degrees.at(Axis::kDpShard),
                     .cp = degrees.at(Axis::kCp),
                     .tp = degrees.at(Axis::kTp),
                     .island = degrees.at(Axis::kIsland)});
    // Printing again catches whatever a lenient reading let through.
    if (print(mesh) == text) return mesh;
  }
  fail(ErrorKind::kData, "\"{}\" is not a mesh; the form is \"{}\"", text, kForm);
}

}  // namespace trireme::mesh
