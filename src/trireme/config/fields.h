// The one list of job keys: parsing, --set, printing, diff, resume checks and docs come from it.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "trireme/base/bytes.h"
#include "trireme/config/job.h"

namespace trireme::config {

struct YamlNode;

// What a field holds; a choice is its name.
using Value = std::variant<bool, std::int64_t, double, std::string, std::array<double, 2>, Bytes>;

// Allowed numbers.
struct Range {
  double min = 0;
  double max = std::numeric_limits<double>::infinity();
  bool above_min = false;              // min itself is excluded
  bool below_max = false;              // max itself is excluded
  std::optional<std::int64_t> also{};  // one more value, with a meaning of its own
};

struct Field {
  enum class Kind { kBool, kInteger, kNumber, kText, kChoice, kTwoNumbers, kBytes };

  std::string key;  // "section.name"
  std::string doc;  // one sentence
  Kind kind = Kind::kText;
  Range range;                       // kInteger, kNumber, kTwoNumbers
  std::vector<std::string> choices;  // kChoice
  bool fixed = false;                // may not change when a run resumes
  std::function<Value(const Job&)> get;
  std::function<void(Job&, const Value&)> set;

  std::string_view section() const { return std::string_view(key).substr(0, key.find('.')); }
  std::string_view name() const { return std::string_view(key).substr(key.find('.') + 1); }
};

// All fields, grouped by section, in the order in which they are printed.
const std::vector<Field>& fields();

// The sections in that order.
std::vector<std::string_view> sections();

// The field called `key`, or null.
const Field* find_field(std::string_view key);

// What the field takes, as in "a whole number from 1 to 64".
std::string describe(const Field& field);

// Reads a field's value; throws Error{kUsage} whose message starts with `place` and names the key,
// the value seen and what is needed.
Value read_value(const Field& field, const YamlNode& node, const std::string& place);

// The value as YAML; read_value of it gives the value back.
std::string write_value(const Value& value);

// "did you mean A or B?" for an unknown key, with or without a section; else the names there are.
std::string suggest(std::string_view unknown);

}  // namespace trireme::config
