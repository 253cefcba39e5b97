// The wire format of Protocol Buffers, as far as reading needs it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace trireme::text {

// Fields of one message in their order, from untrusted bytes. Everything malformed is Error{kData} beginning with `what`.
class ProtobufFields {
 public:
  ProtobufFields(std::string_view bytes, std::string what) : rest_(bytes), what_(std::move(what)) {}

  // Goes to the next field; false at the end.
  bool next();
  int number() const { return number_; }
  // The value of the field, which must have this type on the wire.
  std::int64_t integer() const;
  bool boolean() const { return integer() != 0; }
  float number32() const;
  std::string_view bytes() const;
  ProtobufFields message(const std::string& name) const { return {bytes(), what_ + ": " + name}; }
  const std::string& what() const { return what_; }

 private:
  std::uint64_t varint();
  std::string_view take(std::uint64_t size);
  void need(int type) const;

  std::string_view rest_;
  std::string what_;
  int number_ = 0;
  int type_ = 0;
  std::uint64_t value_ = 0;
  std::string_view bytes_;
};

}  // namespace trireme::text
