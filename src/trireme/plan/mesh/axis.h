// Mesh axes and sets of them. An *axis* is the mesh's; a tensor has *dims*.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

namespace trireme::mesh {

// From the innermost (neighbouring ranks) to the outermost.
// Ranks of an island are those that add gradients; islands merge weights (outer_steps.h).
enum class Axis : std::uint8_t { kTp, kCp, kDpShard, kDpReplicate, kIsland, kPp };

inline constexpr std::array kAllAxes = {Axis::kTp,          Axis::kCp,     Axis::kDpShard,
                                        Axis::kDpReplicate, Axis::kIsland, Axis::kPp};

// A set of axes: what a collective runs over. The empty set is a group of one rank.
class AxisSet {
 public:
  constexpr AxisSet() = default;
  constexpr AxisSet(Axis axis) : bits_(bit(axis)) {}  // NOLINT: implicit, an axis is a set of one
  constexpr AxisSet(std::initializer_list<Axis> axes) {
    for (Axis axis : axes) bits_ |= bit(axis);
  }

  constexpr bool contains(Axis axis) const { return (bits_ & bit(axis)) != 0; }
  constexpr bool contains(AxisSet other) const { return (bits_ & other.bits_) == other.bits_; }
  constexpr bool empty() const { return bits_ == 0; }
  // Bit i belongs to Axis i: a key for tables, the same on every rank.
  constexpr std::uint8_t bits() const { return bits_; }
  constexpr AxisSet operator|(AxisSet other) const { return from_bits(bits_ | other.bits_); }
  constexpr AxisSet operator&(AxisSet other) const { return from_bits(bits_ & other.bits_); }
  constexpr AxisSet operator-(AxisSet other) const { return from_bits(bits_ & ~other.bits_); }
  constexpr auto operator<=>(const AxisSet&) const = default;

 private:
  static constexpr std::uint8_t bit(Axis axis) {
    return static_cast<std::uint8_t>(1u << static_cast<unsigned>(axis));
  }
  static constexpr AxisSet from_bits(unsigned bits) {
    AxisSet set;
    set.bits_ = static_cast<std::uint8_t>(bits);
    return set;
  }

  std::uint8_t bits_ = 0;
};

// The data-parallel ranks: those that see different samples.
inline constexpr AxisSet kDp = {Axis::kDpShard, Axis::kDpReplicate, Axis::kIsland};
// Ranks that hold equal parameters: those that see different samples or different tokens of one.
inline constexpr AxisSet kReplicas = {Axis::kCp, Axis::kDpShard, Axis::kDpReplicate, Axis::kIsland};
// Those among them that ZeRO shards over.
inline constexpr AxisSet kShards = {Axis::kCp, Axis::kDpShard};
inline constexpr AxisSet kWorld = {Axis::kTp,          Axis::kCp,     Axis::kDpShard,
                                   Axis::kDpReplicate, Axis::kIsland, Axis::kPp};

// "tp", "cp", "dp_shard", "dp_replicate", "island", "pp".
std::string_view name(Axis axis);

// Names joined by '+', outermost first: "dp_replicate+dp_shard"; the empty set is "none".
std::string print(AxisSet axes);

// Inverse of print; throws Error{kData} for an unknown name, a repeated one or another order.
AxisSet parse_axes(std::string_view text);

}  // namespace trireme::mesh
