// Strict reading of JSON objects: every field has a type and a range, every key is known.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/base/json.h"

namespace trireme::formats {

// A value on one line, as JSON in ASCII, cut after 120 bytes.
std::string shown_json(const Json& value);

// One object of a parsed document. Each get throws Error{kData} naming `where` and the key when the field
// is missing, of another type or out of range.
class JsonFields {
 public:
  // Refuses a value that is no object.
  JsonFields(const Json& value, std::string where);

  // Refuses keys beyond these.
  void only(std::initializer_list<std::string_view> keys) const;

  bool has(const char* key) const;
  const Json& any(const char* key) const;
  const Json& array(const char* key) const;
  const Json& object(const char* key) const;
  std::string string(const char* key) const;
  std::int64_t integer(const char* key, std::int64_t low = 0,
                       std::int64_t high = std::numeric_limits<std::int64_t>::max()) const;
  bool boolean(const char* key) const;
  // Any finite one.
  double number(const char* key) const;
  // 16 lower-case hex digits.
  std::uint64_t hex(const char* key) const;
  const std::string& where() const { return where_; }
  // Refuses a document whose key "format" or "version" has another value; `remedy` ends the line about a version.
  // Returns the version.
  std::int64_t need_format(std::string_view format, std::int64_t oldest, std::int64_t newest,
                           std::string_view remedy) const;
  void need_format(std::string_view format, std::int64_t version, std::string_view remedy) const {
    need_format(format, version, version, remedy);
  }

 private:
  [[noreturn]] void wrong(const char* key, const char* needed) const;

  const Json& value_;
  std::string where_;
};

// The same for a number outside an object, such as one dimension of a shape.
std::int64_t json_integer(const Json& value, const std::string& where, std::int64_t low = 0,
                          std::int64_t high = std::numeric_limits<std::int64_t>::max());

// Reads 16 lower-case hex digits; Error{kData} beginning with `where`.
std::uint64_t parse_hex64(std::string_view text, const std::string& where);

}  // namespace trireme::formats
