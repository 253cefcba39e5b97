#include "trireme/data/text/tokenizer/protobuf.h"

#include <bit>

#include "trireme/base/error.h"

namespace trireme::text {
namespace {

enum WireType { kWireVarint = 0, kWireFixed64 = 1, kWireBytes = 2, kWireFixed32 = 5 };

}  // namespace

std::uint64_t ProtobufFields::varint() {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    const auto byte = static_cast<unsigned char>(take(1)[0]);
    value |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
    if (byte < 0x80) return value;
  }
  fail(ErrorKind::kData, "{}: a number of more than 64 bits", what_);
}

std::string_view ProtobufFields::take(std::uint64_t size) {
  if (size > rest_.size())
    fail(ErrorKind::kData, "{}: ends inside a field: {} bytes are needed, {} follow", what_, size,
         rest_.size());
  const std::string_view taken = rest_.substr(0, size);
  rest_.remove_prefix(size);
  return taken;
}

bool ProtobufFields::next() {
  if (rest_.empty()) return false;
  const std::uint64_t key = varint();
  number_ = static_cast<int>(key >> 3 & 0x1FFFFFFF);
  type_ = static_cast<int>(key & 7);
  switch (type_) {
    case kWireVarint: value_ = varint(); break;
    case kWireFixed64: bytes_ = take(8); break;
    case kWireBytes: bytes_ = take(varint()); break;
    case kWireFixed32: bytes_ = take(4); break;
    default:
      fail(ErrorKind::kData, "{}: field {} has wire type {}, which no SentencePiece model has",
           what_, number_, type_);
  }
  return true;
}

void ProtobufFields::need(int type) const {
  if (type_ != type)
    fail(ErrorKind::kData, "{}: field {} has wire type {}; {} is needed", what_, number_, type_,
         type);
}

std::int64_t ProtobufFields::integer() const {
  need(kWireVarint);
  return static_cast<std::int64_t>(value_);
}

float ProtobufFields::number32() const {
  need(kWireFixed32);
  std::uint32_t bits = 0;
  for (std::size_t i = 4; i > 0; --i) bits = bits << 8 | static_cast<unsigned char>(bytes_[i - 1]);
  return std::bit_cast<float>(bits);
}

std::string_view ProtobufFields::bytes() const {
  need(kWireBytes);
  return bytes_;
}

}  // namespace trireme::text
