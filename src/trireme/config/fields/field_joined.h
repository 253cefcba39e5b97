// Keys that hold two values of a job: a pair of numbers, or a choice with a number.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "trireme/config/fields/field_kinds.h"

namespace trireme::config {

// NOLINTBEGIN(bugprone-macro-parentheses): a member's name takes none
#define MEMBER(member)      \
  +[](Job & job) -> auto& { \
    return job.member;      \
  }
// NOLINTEND(bugprone-macro-parentheses)

// One number for two members.
template <typename First, typename Second>
Field pair_of(std::string_view key, First& (*first)(Job&), Second& (*second)(Job&),
              std::string_view doc, Range range) {
  Field field = form(Field::Kind::kTwoNumbers, key, doc, range);
  field.whole = {std::is_integral_v<First>, std::is_integral_v<Second>};
  field.get = [first, second](const Job& job) -> Value {
    return std::array<double, 2>{static_cast<double>(member_of(first, job)),
                                 static_cast<double>(member_of(second, job))};
  };
  field.set = [first, second](Job& job, const Value& value) {
    const auto& numbers = std::get<std::array<double, 2>>(value);
    first(job) = static_cast<First>(numbers[0]);
    second(job) = static_cast<Second>(numbers[1]);
  };
  return field;
}

// A number, or two where it moves along a schedule.
Field moving(std::string_view key, double& (*first)(Job&), std::optional<double>& (*last)(Job&),
             std::string_view doc, Range range);

// A number that may follow some names of a choice, "wsd:0.2"; left out, it is the default of a Job.
struct Suffix {
  std::vector<std::string> names;
  std::string term;  // of the number, in messages
  Range range;
  bool whole = false;
  std::function<double(const Job&)> get;
  std::function<void(Job&, double)> set;
};

Field with_suffix(Field field, Suffix suffix);

template <typename Number>
Field with_suffix(Field field, std::vector<std::string> names, std::string_view term,
                  Number& (*at)(Job&), Range range) {
  return with_suffix(
      std::move(field),
      {.names = std::move(names),
       .term = std::string(term),
       .range = range,
       .whole = std::is_integral_v<Number>,
       .get = [at](const Job& job) { return static_cast<double>(member_of(at, job)); },
       .set = [at](Job& job, double number) { at(job) = static_cast<Number>(number); }});
}

}  // namespace trireme::config
