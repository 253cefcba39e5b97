#include "trireme/config/fields/field_kinds.h"

#include <algorithm>

#include "trireme/base/error.h"

namespace trireme::config {

Field form(Field::Kind kind, std::string_view key, std::string_view doc, Range range) {
  Field field;
  field.key = key;
  field.doc = doc;
  field.kind = kind;
  field.range = range;
  return field;
}

Field two_integers(std::string_view key, At<std::array<std::int64_t, 2>> at, std::string_view doc,
                   Range range) {
  Field field = form(Field::Kind::kTwoNumbers, key, doc, range);
  field.whole = {true, true};
  field.get = [at](const Job& job) -> Value {
    const auto& pair = member_of(at, job);
    return std::array<double, 2>{static_cast<double>(pair[0]), static_cast<double>(pair[1])};
  };
  field.set = [at](Job& job, const Value& value) {
    const auto& pair = std::get<std::array<double, 2>>(value);
    at(job) = {static_cast<std::int64_t>(pair[0]), static_cast<std::int64_t>(pair[1])};
  };
  return field;
}

Value name_of(const Codes& codes, int code) {
  const auto found = std::ranges::find(codes, code, &Codes::value_type::second);
  TRIREME_CHECK(found != codes.end(), "a choice without a name");
  return std::string(found->first);
}

int code_of(const Codes& codes, const Value& name) {
  const auto& text = std::get<std::string>(name);
  const auto found = std::ranges::find(codes, text, &Codes::value_type::first);
  TRIREME_CHECK(found != codes.end(), "{} is not a choice", text);
  return found->second;
}

Field fixed(Field field) {
  field.fixed = true;
  return field;
}

Field inherited(Field field) {
  field.inherited = true;
  return field;
}

Field compared(Field field) {
  field.compared = true;
  return field;
}

Field of_weights(Field field) { return compared(inherited(fixed(std::move(field)))); }

}  // namespace trireme::config
