// Functions that build the lists of fields: a field of each kind, from its key, its place in Job and its doc.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "trireme/config/fields/fields.h"

namespace trireme::config {

// Bounds that keep products of sizes inside 64 bits; no real model exceeds them.
inline constexpr double kMaxWidth = 1 << 20;
inline constexpr double kMaxIds = 1 << 28;
inline constexpr double kMaxSteps = 1e9;
inline constexpr double kMaxBatch = 1 << 30;
inline constexpr double kMaxSeed =
    9007199254740992;  // 2^53: every whole number up to it is a double

#define KEY(member) KEY_OF(Job, member)

template <typename Member>
using At = Member& (*)(Job&);

Field form(Field::Kind kind, std::string_view key, std::string_view doc, Range range = {});

template <typename Member>
Field plain(Field::Kind kind, std::string_view key, At<Member> at, std::string_view doc,
            Range range = {}) {
  Field field = form(kind, key, doc, range);
  bind_member(field, at);
  return field;
}

inline Field boolean(std::string_view key, At<bool> at, std::string_view doc) {
  return plain(Field::Kind::kBool, key, at, doc);
}

template <typename Member>
Field integer(std::string_view key, Member& (*at)(Job&), std::string_view doc, Range range) {
  return plain(Field::Kind::kInteger, key, at, doc, range);
}

inline Field number(std::string_view key, At<double> at, std::string_view doc, Range range) {
  return plain(Field::Kind::kNumber, key, at, doc, range);
}

// A whole number whose 0 has a meaning of its own.
template <typename Member>
Field count(std::string_view key, Member& (*at)(Job&), std::string_view doc) {
  return integer(key, at, doc, from(0, kMaxSteps));
}

inline Field bytes(std::string_view key, At<Bytes> at, std::string_view doc) {
  return plain(Field::Kind::kBytes, key, at, doc);
}

inline Field text(std::string_view key, At<std::string> at, std::string_view doc) {
  return plain(Field::Kind::kText, key, at, doc);
}

inline Field two_numbers(std::string_view key, At<std::array<double, 2>> at, std::string_view doc,
                         Range range) {
  return plain(Field::Kind::kTwoNumbers, key, at, doc, range);
}

Field two_integers(std::string_view key, At<std::array<std::int64_t, 2>> at, std::string_view doc,
                   Range range);

// Choices as numbers: those of an enum, and kNoCode for an optional without one.
using Codes = std::vector<std::pair<std::string_view, int>>;
inline constexpr int kNoCode = -1;
Value name_of(const Codes& codes, int code);
int code_of(const Codes& codes, const Value& name);

template <typename Enum>
int code(Enum option) {
  return static_cast<int>(option);
}
template <typename Enum>
int code(std::optional<Enum> option) {
  return option ? code(*option) : kNoCode;
}
template <typename Enum>
void decode(int code, Enum& option) {
  option = static_cast<Enum>(code);
}
template <typename Enum>
void decode(int code, std::optional<Enum>& option) {
  option = code == kNoCode ? std::nullopt : std::optional(static_cast<Enum>(code));
}

template <typename Enum>
Field choice(std::string_view key, Enum& (*at)(Job&), std::string_view doc,
             const std::vector<std::pair<std::string_view, std::type_identity_t<Enum>>>& options) {
  Field field = form(Field::Kind::kChoice, key, doc);
  Codes codes;
  for (const auto& [name, option] : options) {
    field.choices.emplace_back(name);
    codes.emplace_back(name, code(option));
  }
  field.get = [at, codes](const Job& job) -> Value {
    return name_of(codes, code(member_of(at, job)));
  };
  field.set = [at, codes = std::move(codes)](Job& job, const Value& value) {
    decode(code_of(codes, value), at(job));
  };
  return field;
}

Field fixed(Field field);
Field inherited(Field field);
Field compared(Field field);
// A part of what a trained model is: fixed for a run, inherited from weights and compared with theirs.
Field of_weights(Field field);

}  // namespace trireme::config
