#include "trireme/config/fields/field_joined.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <utility>

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

Field moving(std::string_view key, double& (*first)(Job&), std::optional<double>& (*last)(Job&),
             std::string_view doc, Range range) {
  Field field = form(Field::Kind::kNumber, key, doc, range);
  field.pair = "at the first step and at optim.decay_steps";
  field.get = [first, last](const Job& job) -> Value {
    const std::optional<double> end = member_of(last, job);
    if (!end) return member_of(first, job);
    return std::array<double, 2>{member_of(first, job), *end};
  };
  field.set = [first, last](Job& job, const Value& value) {
    const auto* const both = std::get_if<std::array<double, 2>>(&value);
    first(job) = both != nullptr ? both->front() : std::get<double>(value);
    last(job) = both != nullptr ? std::optional(both->back()) : std::nullopt;
  };
  return field;
}

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
  field.set = [suffix = std::move(suffix), before = field.set](Job& job, const Value& value) {
    const auto suffixed = parse(std::get<std::string>(value), suffix);
    before(job, suffixed ? Value(suffixed->name) : value);
    suffix.set(job, suffixed ? suffixed->number : suffix.get(Job{}));
  };
  return field;
}

}  // namespace trireme::config
