#include "trireme/checkpoint/convert/compare.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "trireme/base/ulps.h"
#include "trireme/checkpoint/convert/values.h"

namespace trireme::convert {
namespace {

using Values = std::vector<std::byte>;

bool is_floating(DType type) {
  return type == DType::kF64 || type == DType::kF32 || type == DType::kBF16 || type == DType::kF16;
}

std::uint64_t apart(double a, double b, DType type) {
  return is_floating(type) ? ulps_between(a, b, type) : static_cast<std::uint64_t>(std::abs(a - b));
}

// Adds one tensor. Where types differ, what counts is the coarser one.
void add(Comparison& result, const std::string& parameter, const Kind& a, const Values& in_a,
         const Kind& b, const Values& in_b) {
  ++result.tensors;
  const auto count = static_cast<std::int64_t>(in_a.size() / size_of(a.type));
  result.elements += count;
  if (a.type == b.type && std::memcmp(in_a.data(), in_b.data(), in_a.size()) == 0) return;
  const DType type = size_of(a.type) <= size_of(b.type) ? a.type : b.type;
  std::int64_t differ = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const double x = value_at(in_a, a.type, i), y = value_at(in_b, b.type, i);
    const std::uint64_t ulps = apart(x, y, type);
    if (ulps == 0) continue;
    ++differ;
    const Difference here{
        .parameter = parameter, .kind = a.name, .element = i, .a = x, .b = y, .ulps = ulps};
    if (!result.first) result.first = here;
    if (!result.largest || ulps > result.largest->ulps) result.largest = here;
  }
  result.elements_that_differ += differ;
  result.tensors_that_differ += differ > 0;
}

// All of a unit, for kinds that have one number for several elements and so no places in parameters.
Values whole_unit(const StateReader& reader, std::size_t unit, std::int64_t numel,
                  const Kind& kind) {
  const std::int64_t count = (numel + kind.block - 1) / kind.block;
  Values values(static_cast<std::size_t>(count) * size_of(kind.type));
  reader.read({.unit = unit, .count = count}, kind, values);
  return values;
}

}  // namespace

Comparison compare(const StateReader& a, const StateReader& b,
                   const std::vector<model::UnitSpec>& specs) {
  Comparison result;
  for (std::size_t unit = 0; unit < specs.size(); ++unit) {
    const std::vector<Kind> kinds_a = a.kinds(unit), kinds_b = b.kinds(unit);
    const auto in = [](const std::vector<Kind>& kinds, const Kind& kind) {
      return std::ranges::find_if(kinds, [&](const Kind& other) {
        return other.name == kind.name && other.block == kind.block;
      });
    };
    for (const Kind& kind : kinds_b)
      if (in(kinds_a, kind) == kinds_a.end())
        result.only_b.push_back(specs[unit].name + "." + kind.name);
    for (const Kind& kind : kinds_a) {
      const auto other = in(kinds_b, kind);
      if (other == kinds_b.end()) {
        result.only_a.push_back(specs[unit].name + "." + kind.name);
        continue;
      }
      if (kind.block > 1) {
        add(result, specs[unit].name, kind, whole_unit(a, unit, specs[unit].numel(), kind), *other,
            whole_unit(b, unit, specs[unit].numel(), *other));
        continue;
      }
      for (std::size_t param = 0; param < specs[unit].params.size(); ++param)
        add(result, specs[unit].params[param].name, kind, a.read_whole(unit, param, kind), *other,
            b.read_whole(unit, param, *other));
    }
  }
  return result;
}

}  // namespace trireme::convert
