#include "trireme/config/fields/field_joined.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

namespace trireme::config {
namespace {

struct Suffixed {
  std::string name;
  double number;
};

std::optional<Suffixed> parse(std::string_view text, const Suffix& suffix) {
  const std::size_t colon = text.find(':');
  if (colon == text.npos) return std::nullopt;
  const std::string_view name = text.substr(0, colon), digits = text.substr(colon + 1);
  if (std::ranges::find(suffix.names, name) == suffix.names.end()) return std::nullopt;
  double number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  if (!suffix.range.holds(number) || (suffix.whole && number != std::floor(number)))
    return std::nullopt;
  return Suffixed{.name = std::string(name), .number = number};
}

std::string describe(const Suffix& suffix) {
  std::string names;
  for (const std::string& name : suffix.names)
    names += fmt::format("{}{}:{}", names.empty() ? "" : " or ", name, suffix.term);
  return fmt::format("{} with {} {}", names, suffix.term, describe(suffix.range));
}

}  // namespace

Field with_suffix(Field field, Suffix suffix) {
  field.other += (field.other.empty() ? "" : ", or ") + describe(suffix);
  field.is_other = [suffix, before = field.is_other](std::string_view text) {
    return parse(text, suffix) || (before && before(text));
  };
  field.get = [suffix, before = field.get](const Job& job) -> Value {
    const auto name = std::get<std::string>(before(job));
    const double number = suffix.get(job);
    if (number == suffix.get(Job{}) || std::ranges::find(suffix.names, name) == suffix.names.end())
      return name;
    return fmt::format("{}:{}", name, number);
  };
  field.set = [suffix, before = field.set](Job& job, const Value& value) {
    const auto suffixed = parse(std::get<std::string>(value), suffix);
    before(job, suffixed ? Value(suffixed->name) : value);
    suffix.set(job, suffixed ? suffixed->number : suffix.get(Job{}));
  };
  return field;
}

}  // namespace trireme::config
