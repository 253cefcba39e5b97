#include "trireme/formats/json_fields.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "trireme/base/error.h"
#include "trireme/formats/shown.h"

namespace trireme::formats {

std::string shown_json(const Json& value) {
  constexpr std::size_t kMaxShown = 120;
  std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() <= kMaxShown) return text;
  text.resize(kMaxShown);
  return text + "...";
}

JsonFields::JsonFields(const Json& value, std::string where)
    : value_(value), where_(std::move(where)) {
  if (!value.is_object())
    fail(ErrorKind::kData, "{}: is {}, an object is needed", where_, shown_json(value));
}

void JsonFields::only(std::initializer_list<std::string_view> keys) const {
  for (const auto& item : value_.items())
    if (std::find(keys.begin(), keys.end(), item.key()) == keys.end())
      fail(ErrorKind::kData, "{}: unknown key {}", where_, shown(item.key()));
}

bool JsonFields::has(const char* key) const { return value_.contains(key); }

const Json& JsonFields::any(const char* key) const {
  const auto found = value_.find(key);
  if (found == value_.end()) fail(ErrorKind::kData, "{}: key \"{}\" is missing", where_, key);
  return *found;
}

void JsonFields::wrong(const char* key, const char* needed) const {
  fail(ErrorKind::kData, "{}: {} is {}, {} is needed", where_, key, shown_json(any(key)), needed);
}

const Json& JsonFields::array(const char* key) const {
  const Json& value = any(key);
  if (!value.is_array()) wrong(key, "a list");
  return value;
}

const Json& JsonFields::object(const char* key) const {
  const Json& value = any(key);
  if (!value.is_object()) wrong(key, "an object");
  return value;
}

std::string JsonFields::string(const char* key) const {
  const Json& value = any(key);
  if (!value.is_string()) wrong(key, "a string");
  return value.get<std::string>();
}

bool JsonFields::boolean(const char* key) const {
  const Json& value = any(key);
  if (!value.is_boolean()) wrong(key, "true or false");
  return value.get<bool>();
}

std::int64_t JsonFields::integer(const char* key, std::int64_t low, std::int64_t high) const {
  return json_integer(any(key), where_ + ": " + key, low, high);
}

double JsonFields::number(const char* key) const {
  const Json& value = any(key);
  if (!value.is_number() || !std::isfinite(value.get<double>())) wrong(key, "a finite number");
  return value.get<double>();
}

std::int64_t JsonFields::need_format(std::string_view format, std::int64_t oldest,
                                     std::int64_t newest, std::string_view remedy) const {
  if (const std::string found = string("format"); found != format)
    fail(ErrorKind::kData, "{}: format is {}, {} is needed", where_, shown(found), format);
  const std::int64_t version = integer("version");
  if (version >= oldest && version <= newest) return version;
  const std::string read = oldest == newest ? fmt::format("version {}", newest)
                                            : fmt::format("versions {} to {}", oldest, newest);
  fail(ErrorKind::kData, "{}: {} version {}, this build reads {}; {}", where_, format, version,
       read, remedy);
}

std::uint64_t JsonFields::hex(const char* key) const {
  return parse_hex64(string(key), where_ + ": " + key);
}

std::int64_t json_integer(const Json& value, const std::string& where, std::int64_t low,
                          std::int64_t high) {
  if (!value.is_number_integer())
    fail(ErrorKind::kData, "{}: is {}, a whole number is needed", where, shown_json(value));
  const bool beyond = value.is_number_unsigned() &&
                      value.get<std::uint64_t>() >
                          static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (beyond || value.get<std::int64_t>() < low || value.get<std::int64_t>() > high)
    fail(ErrorKind::kData, "{}: is {}, must be in [{}, {}]", where, value.dump(), low, high);
  return value.get<std::int64_t>();
}

std::uint64_t parse_hex64(std::string_view text, const std::string& where) {
  const bool digits = text.size() == 16 && std::all_of(text.begin(), text.end(), [](char c) {
                        return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
                      });
  if (!digits) fail(ErrorKind::kData, "{}: is {}, 16 hex digits are needed", where, shown(text));
  std::uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value, 16);
  return value;
}

}  // namespace trireme::formats
