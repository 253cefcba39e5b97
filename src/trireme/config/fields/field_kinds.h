// Functions that build the lists of fields: a field of each kind, from its key, its place in Job and its doc.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "trireme/base/error.h"
#include "trireme/config/fields/fields.h"

namespace trireme::config {

// Bounds that keep products of sizes inside 64 bits; no real model exceeds them.
inline constexpr double kMaxWidth = 1 << 20;
inline constexpr double kMaxIds = 1 << 28;
inline constexpr double kMaxSteps = 1e9;
inline constexpr double kMaxBatch = 1 << 30;
inline constexpr double kMaxSeed =
    9007199254740992;  // 2^53: every whole number up to it is a double

template <typename At>
using Member = std::remove_cvref_t<std::invoke_result_t<At, Job&>>;

template <typename At>
Field plain(Field::Kind kind, std::string key, At at, std::string doc, Range range = {}) {
  Field field;
  field.key = std::move(key);
  field.doc = std::move(doc);
  field.kind = kind;
  field.range = range;
  bind(field, at);
  return field;
}

template <typename At>
Field boolean(std::string key, At at, std::string doc) {
  return plain(Field::Kind::kBool, std::move(key), at, std::move(doc));
}

template <typename At>
Field integer(std::string key, At at, std::string doc, Range range) {
  return plain(Field::Kind::kInteger, std::move(key), at, std::move(doc), range);
}

template <typename At>
Field number(std::string key, At at, std::string doc, Range range) {
  return plain(Field::Kind::kNumber, std::move(key), at, std::move(doc), range);
}

// A whole number whose 0 has a meaning of its own.
template <typename At>
Field count(std::string key, At at, std::string doc) {
  return integer(std::move(key), at, std::move(doc), from(0, kMaxSteps));
}

// A number that may be missing, which is written as -1.
template <typename At>
Field optional_number(std::string key, At at, std::string doc, Range range) {
  Field field;
  field.key = std::move(key);
  field.doc = std::move(doc);
  field.kind = Field::Kind::kNumber;
  field.range = or_else(-1, range);
  field.get = [at](const Job& job) -> Value { return at(job).value_or(-1); };
  field.set = [at](Job& job, const Value& value) {
    const double number = std::get<double>(value);
    at(job) = number == -1 ? std::nullopt : std::optional(number);
  };
  return field;
}

template <typename At>
Field two_numbers(std::string key, At at, std::string doc, Range range) {
  return plain(Field::Kind::kTwoNumbers, std::move(key), at, std::move(doc), range);
}

template <typename At>
Field two_integers(std::string key, At at, std::string doc, Range range) {
  Field field;
  field.key = std::move(key);
  field.doc = std::move(doc);
  field.kind = Field::Kind::kTwoNumbers;
  field.range = range;
  field.whole = true;
  field.get = [at](const Job& job) -> Value {
    return std::array<double, 2>{static_cast<double>(at(job)[0]), static_cast<double>(at(job)[1])};
  };
  field.set = [at](Job& job, const Value& value) {
    const auto& pair = std::get<std::array<double, 2>>(value);
    at(job) = {static_cast<std::int64_t>(pair[0]), static_cast<std::int64_t>(pair[1])};
  };
  return field;
}

template <typename At>
Field bytes(std::string key, At at, std::string doc) {
  return plain(Field::Kind::kBytes, std::move(key), at, std::move(doc));
}

template <typename At>
Field text(std::string key, At at, std::string doc) {
  return plain(Field::Kind::kText, std::move(key), at, std::move(doc));
}

template <typename At>
Field choice(std::string key, At at, std::string doc,
             std::vector<std::pair<std::string_view, Member<At>>> options) {
  Field field;
  field.key = std::move(key);
  field.doc = std::move(doc);
  field.kind = Field::Kind::kChoice;
  for (const auto& option : options) field.choices.emplace_back(option.first);
  field.get = [at, options](const Job& job) -> Value {
    const auto option = std::ranges::find(options, at(job), [](const auto& o) { return o.second; });
    TRIREME_CHECK(option != options.end(), "a choice without a name");
    return std::string(option->first);
  };
  field.set = [at, options](Job& job, const Value& value) {
    const auto option = std::ranges::find(options, std::get<std::string>(value),
                                          [](const auto& o) { return o.first; });
    TRIREME_CHECK(option != options.end(), "{} is not a choice", std::get<std::string>(value));
    at(job) = option->second;
  };
  return field;
}

inline Field fixed(Field field) {
  field.fixed = true;
  return field;
}

inline Field inherited(Field field) {
  field.inherited = true;
  return field;
}

inline Field compared(Field field) {
  field.compared = true;
  return field;
}

// A part of what a trained model is: fixed for a run, inherited from weights and compared with theirs.
inline Field of_weights(Field field) { return compared(inherited(fixed(std::move(field)))); }

}  // namespace trireme::config
