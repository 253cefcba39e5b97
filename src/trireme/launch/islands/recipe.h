// Recipe: what islands that are jobs of their own agree on, and where each unit lies in the bytes they exchange.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trireme/base/json.h"
#include "trireme/comm/codec/codec.h"

namespace trireme::islands {

// Differences that an island sends, or means that the leader returns.
enum class Way { kDifference, kMean };

// A unit of the model, coded from its first element on in whole blocks. Without codes it travels as fp32.
struct Unit {
  std::string name;
  std::int64_t numel = 0;
  int fragment = 0;
  bool coded = false;
  std::int64_t block = 1, back_block = 1;
  std::int64_t whole() const { return (numel + block - 1) / block * block; }
  bool operator==(const Unit&) const = default;
};

struct Recipe {
  std::string text{};  // further settings that must be equal
  int fragments = 1;
  int delay = 0;  // steps from sending to applying
  std::uint64_t seed = 0;
  bool residual = false;
  std::optional<codec::Codec> codec{}, back{};
  std::vector<Unit> units{};
  bool operator==(const Recipe&) const = default;

  // Bytes of `elements` elements of the unit, which are whole blocks, and of a whole fragment.
  std::int64_t bytes(const Unit& unit, std::int64_t elements, Way way) const;
  std::int64_t bytes(int fragment, Way way) const;
  codec::Draws draws(const Unit& unit, std::int64_t round, std::uint64_t island) const;
};
Json to_json(const Recipe& recipe);
// Throws Error{kData} naming `where`.
Recipe recipe_from(const Json& json, const std::string& where);
// Where the recipes differ; empty if they are equal.
std::string difference(const Recipe& a, const Recipe& b);

// Elements of a unit that one rank steps, in whole blocks.
struct Part {
  int unit = 0;  // of Recipe::units
  std::int64_t begin = 0;
  std::int64_t count = 0;
  bool sends = false;  // of several ranks with these elements, one sends them
  bool operator==(const Part&) const = default;
};
// Bytes of a fragment that a rank sends or receives, in order of its parts.
struct Place {
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
};
std::vector<Place> places(const Recipe& recipe, std::span<const Part> parts, int fragment, Way way);
std::int64_t total(std::span<const Place> places);

// One island's codes of a whole fragment.
struct Codes {
  int island = 0;
  double weight = 1;
  std::span<const std::byte> bytes{};
};
// The weighted mean of the differences, as bytes of Way::kMean. `codes` are in order of islands. Weights are normalised
// in fp64 and rounded to fp32; products are rounded, then added as a balanced binary tree.
std::vector<std::byte> merge(const Recipe& recipe, int fragment, std::int64_t round,
                             std::span<const Codes> codes);

}  // namespace trireme::islands
