// One key of a file and the value that it takes, whatever the key belongs to.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "trireme/base/bytes.h"

namespace trireme::config {

struct YamlNode;

// A list of maps, each of keys with a number or a text.
using Maps = std::vector<std::vector<std::pair<std::string, std::variant<double, std::string>>>>;

// Value of a field; for a choice its name.
using Value =
    std::variant<bool, std::int64_t, double, std::string, std::array<double, 2>, Bytes, Maps>;

// Allowed numbers.
struct Range {
  double min = 0;
  double max = std::numeric_limits<double>::infinity();
  bool above_min = false;              // min itself is excluded
  bool below_max = false;              // max itself is excluded
  std::optional<std::int64_t> also{};  // one more value, with a meaning of its own

  bool holds(double number) const;
};

inline Range from(double min, double max) { return Range{.min = min, .max = max}; }
inline Range above(double min, double max) {
  return Range{.min = min, .max = max, .above_min = true};
}
inline Range half_open(double min, double max) {
  return Range{.min = min, .max = max, .below_max = true};
}
inline Range or_else(std::int64_t also, Range range) {
  range.also = also;
  return range;
}

// Unit suffix of a number, and its factor.
struct Unit {
  std::string_view name;
  double factor = 1;
};

// Accepted values of a key.
struct FieldForm {
  enum class Kind { kBool, kInteger, kNumber, kText, kChoice, kTwoNumbers, kBytes, kMaps };

  std::string key;  // "section.name"
  std::string doc;  // one sentence
  Kind kind = Kind::kText;
  Range range;                       // kInteger, kNumber, kTwoNumbers, kBytes
  std::array<bool, 2> whole{};       // kTwoNumbers: which of them are whole
  std::span<const Unit> units;       // kNumber
  std::vector<std::string> choices;  // kChoice
  // kChoice: description of further accepted texts, and their check.
  std::string other;
  std::function<bool(std::string_view)> is_other;
  std::string pair;                // kNumber: what the second of two numbers means; empty: one only
  std::vector<FieldForm> entries;  // kMaps: the keys of a map, of which the first is needed

  // Whether the value may be a list.
  bool takes_list() const;
};

// A key and its place in an Owner.
template <typename Owner>
struct FieldOf : FieldForm {
  std::function<Value(const Owner&)> get;
  std::function<void(Owner&, const Value&)> set;
};

// The member that `at` gives of an owner that is only read.
template <typename Owner, typename Member>
const Member& member_of(Member& (*at)(Owner&), const Owner& owner) {
  return at(const_cast<Owner&>(owner));
}

// Lets `field` read and write the member that `at` gives of an owner; sizes may be whole numbers there. Functions of a
// member's type and not of each key: keys are many, and the first build compiles them all.
template <typename Owner, typename Member>
void bind_member(FieldOf<Owner>& field, Member& (*at)(Owner&)) {
  using Stored = std::conditional_t<std::is_same_v<Member, int>, std::int64_t, Member>;
  if constexpr (std::is_same_v<Member, std::int64_t>) {
    if (field.kind == FieldForm::Kind::kBytes) {
      field.get = [at](const Owner& owner) -> Value { return Bytes{member_of(at, owner)}; };
      field.set = [at](Owner& owner, const Value& value) {
        at(owner) = std::get<Bytes>(value).count;
      };
      return;
    }
  }
  field.get = [at](const Owner& owner) -> Value {
    return static_cast<Stored>(member_of(at, owner));
  };
  field.set = [at](Owner& owner, const Value& value) {
    at(owner) = static_cast<Member>(std::get<Stored>(value));
  };
}

// "from 0 to 1" or "above 0 up to 100".
std::string describe(const Range& range);

// Accepted values in words, such as "1 to 64" (whole numbers) or "a number from 0 to 1".
std::string describe(const FieldForm& field);

// Reads a field's value; throws Error{kUsage} whose message starts with `place` and names the key,
// the value seen and what is needed.
Value read_value(const FieldForm& field, const YamlNode& node, const std::string& place);

// The value as YAML; read_value of it gives the value back.
std::string write_value(const Value& value);
// The same in the largest of the field's units that leaves it exact and above 1.
std::string write_value(const FieldForm& field, const Value& value);

// Key and member of an owner, spelled once. A type and a member's name take no parentheses.
// NOLINTBEGIN(bugprone-macro-parentheses)
#define KEY_OF(Owner, member) \
#member, +[](Owner & owner) -> auto& { return owner.member; }
// NOLINTEND(bugprone-macro-parentheses)

}  // namespace trireme::config
