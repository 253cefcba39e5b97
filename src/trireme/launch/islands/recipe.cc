#include "trireme/launch/islands/recipe.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "trireme/base/error.h"
#include "trireme/base/hash.h"
#include "trireme/formats/json_fields.h"

namespace trireme::islands {
namespace {

constexpr std::int64_t kTogether = 4096;  // elements decoded and added at a time; whole blocks

std::optional<codec::Codec> codec_from(const formats::JsonFields& fields, const char* key) {
  const std::string text = fields.string(key);
  if (text.empty()) return std::nullopt;
  return codec::parse(text);
}

std::string text_of(const std::optional<codec::Codec>& codec) {
  return codec ? codec::print(*codec) : "";
}

void decode_part(const Recipe& recipe, const Unit& unit, const codec::Draws& draws,
                 std::int64_t first, std::span<const std::byte> in, std::span<float> out) {
  if (!unit.coded) {
    std::memcpy(out.data(), in.data(), in.size());
    return;
  }
  const auto count = static_cast<std::int64_t>(out.size());
  codec::decode(*recipe.codec,
                {.block = unit.block,
                 .first = first / unit.block,
                 .real = std::clamp<std::int64_t>(unit.numel - first, 0, count)},
                draws, in, out);
}

// Level by level, as comm/tree_sum.h has it: an odd last leaf moves up unchanged.
void add_as_tree(std::vector<std::vector<float>>& leaves, std::size_t count) {
  for (std::size_t stride = 1; stride < leaves.size(); stride *= 2)
    for (std::size_t i = 0; i + stride < leaves.size(); i += 2 * stride)
      for (std::size_t at = 0; at < count; ++at) leaves[i][at] += leaves[i + stride][at];
}

}  // namespace

std::int64_t Recipe::bytes(const Unit& unit, std::int64_t elements, Way way) const {
  constexpr std::int64_t kFloat = sizeof(float);
  if (!unit.coded || (way == Way::kMean && !back)) return elements * kFloat;
  return way == Way::kMean ? codec::coded_bytes(*back, elements, unit.back_block)
                           : codec::coded_bytes(*codec, elements, unit.block);
}

std::int64_t Recipe::bytes(int fragment, Way way) const {
  std::int64_t sum = 0;
  for (const Unit& unit : units)
    if (unit.fragment == fragment) sum += bytes(unit, unit.whole(), way);
  return sum;
}

codec::Draws Recipe::draws(const Unit& unit, std::int64_t round, std::uint64_t island) const {
  codec::Draws draws =
      codec::draws_of(seed, static_cast<std::uint64_t>(round), island, hash64(unit.name));
  draws.unbiased = !residual;
  return draws;
}

Json to_json(const Recipe& recipe) {
  Json units = Json::array();
  for (const Unit& unit : recipe.units)
    units.push_back({{"name", unit.name},
                     {"numel", unit.numel},
                     {"fragment", unit.fragment},
                     {"coded", unit.coded},
                     {"block", unit.block},
                     {"back_block", unit.back_block}});
  return {{"text", recipe.text},          {"fragments", recipe.fragments},
          {"delay", recipe.delay},        {"seed", hex64(recipe.seed)},
          {"residual", recipe.residual},  {"codec", text_of(recipe.codec)},
          {"back", text_of(recipe.back)}, {"units", units}};
}

Recipe recipe_from(const Json& json, const std::string& where) {
  const formats::JsonFields fields(json, where);
  fields.only({"text", "fragments", "delay", "seed", "residual", "codec", "back", "units"});
  Recipe recipe{.text = fields.string("text"),
                .fragments = static_cast<int>(fields.integer("fragments", 1, 1024)),
                .delay = static_cast<int>(fields.integer("delay", 0, 1 << 20)),
                .seed = fields.hex("seed"),
                .residual = fields.boolean("residual"),
                .codec = codec_from(fields, "codec"),
                .back = codec_from(fields, "back")};
  for (const Json& one : fields.array("units")) {
    const formats::JsonFields unit(one, where + ": units");
    unit.only({"name", "numel", "fragment", "coded", "block", "back_block"});
    recipe.units.push_back(
        {.name = unit.string("name"),
         .numel = unit.integer("numel", 1, std::int64_t{1} << 42),
         .fragment = static_cast<int>(unit.integer("fragment", 0, recipe.fragments - 1)),
         .coded = unit.boolean("coded"),
         .block = unit.integer("block", 1, kTogether),
         .back_block = unit.integer("back_block", 1, kTogether)});
    const Unit& last = recipe.units.back();
    if ((last.coded && !recipe.codec) || kTogether % last.block != 0 ||
        last.block % last.back_block != 0)
      fail(ErrorKind::kData, "{}: unit {} has blocks of {} and {} elements with codec \"{}\"",
           where, last.name, last.block, last.back_block, text_of(recipe.codec));
  }
  return recipe;
}

std::string difference(const Recipe& a, const Recipe& b) {
  if (a.text != b.text) return a.text + " and " + b.text;
  const Json left = to_json(a), right = to_json(b);
  for (const auto& [key, value] : left.items()) {
    if (value == right[key]) continue;
    if (key != "units") return fmt::format("{}: {} and {}", key, value.dump(), right[key].dump());
    for (std::size_t i = 0; i < std::min(a.units.size(), b.units.size()); ++i)
      if (a.units[i] != b.units[i])
        return fmt::format("unit {}: {} and {}", a.units[i].name, value[i].dump(),
                           right[key][i].dump());
    return fmt::format("{} units and {}", a.units.size(), b.units.size());
  }
  return "";
}

std::vector<Place> places(const Recipe& recipe, std::span<const Part> parts, int fragment,
                          Way way) {
  std::vector<std::int64_t> offsets;
  std::int64_t offset = 0;
  for (const Unit& unit : recipe.units) {
    offsets.push_back(offset);
    if (unit.fragment == fragment) offset += recipe.bytes(unit, unit.whole(), way);
  }
  std::vector<Place> found;
  for (const Part& part : parts) {
    const Unit& unit = recipe.units.at(static_cast<std::size_t>(part.unit));
    if (unit.fragment != fragment || (way == Way::kDifference && !part.sends)) continue;
    found.push_back({.offset = offsets[static_cast<std::size_t>(part.unit)] +
                               recipe.bytes(unit, part.begin, way),
                     .bytes = recipe.bytes(unit, part.count, way)});
  }
  return found;
}

std::int64_t total(std::span<const Place> places) {
  std::int64_t sum = 0;
  for (const Place& place : places) sum += place.bytes;
  return sum;
}

std::vector<std::byte> merge(const Recipe& recipe, int fragment, std::int64_t round,
                             std::span<const Codes> codes) {
  TRIREME_CHECK(!codes.empty(), "a merge needs an island");
  double sum = 0;
  for (const Codes& one : codes) {
    TRIREME_CHECK(std::ssize(one.bytes) == recipe.bytes(fragment, Way::kDifference),
                  "island {} sent {} bytes", one.island, one.bytes.size());
    sum += one.weight;
  }
  std::vector<std::byte> mean(static_cast<std::size_t>(recipe.bytes(fragment, Way::kMean)));
  std::vector<std::vector<float>> leaves(codes.size(), std::vector<float>(kTogether));
  std::size_t in = 0, out = 0;
  for (const Unit& unit : recipe.units) {
    if (unit.fragment != fragment) continue;
    for (std::int64_t first = 0; first < unit.whole(); first += kTogether) {
      const auto count = static_cast<std::size_t>(std::min(kTogether, unit.whole() - first));
      const auto elements = static_cast<std::int64_t>(count);
      const auto bytes = static_cast<std::size_t>(recipe.bytes(unit, elements, Way::kDifference));
      for (std::size_t i = 0; i < codes.size(); ++i) {
        decode_part(recipe, unit, recipe.draws(unit, round, codes[i].island), first,
                    codes[i].bytes.subspan(in, bytes), {leaves[i].data(), count});
        const auto weight = static_cast<float>(sum > 0 ? codes[i].weight / sum
                                                       : 1.0 / static_cast<double>(codes.size()));
        for (std::size_t at = 0; at < count; ++at) leaves[i][at] *= weight;
      }
      add_as_tree(leaves, count);
      const auto back = static_cast<std::size_t>(recipe.bytes(unit, elements, Way::kMean));
      const std::span<std::byte> to = std::span(mean).subspan(out, back);
      if (unit.coded && recipe.back)
        codec::encode(*recipe.back,
                      {.block = unit.back_block,
                       .first = first / unit.back_block,
                       .real = std::clamp<std::int64_t>(unit.numel - first, 0, elements)},
                      recipe.draws(unit, round, codec::kWhole), {leaves[0].data(), count}, to);
      else
        std::memcpy(to.data(), leaves[0].data(), back);
      in += bytes;
      out += back;
    }
  }
  return mean;
}

}  // namespace trireme::islands
