#include "trireme/formats/tfevents.h"

#include <array>
#include <filesystem>
#include <utility>

#include "trireme/base/error.h"

namespace trireme::formats {
namespace {

constexpr std::array<std::uint32_t, 256> kCrcTable = [] {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78u : 0);
    table[i] = crc;
  }
  return table;
}();

// TFRecord stores checksums rotated, because a CRC over bytes that hold their own CRC is weak.
std::uint32_t masked(std::string_view bytes) {
  const std::uint32_t crc = crc32c(bytes);
  return (crc >> 15 | crc << 17) + 0xA282EAD8u;
}

template <typename T>
void put_raw(std::string& out, T value) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  out.append(bytes, sizeof(T));
}

// Protocol buffer wire format.
enum class Wire : std::uint64_t { kVarint = 0, kFixed64 = 1, kLength = 2, kFixed32 = 5 };

void put_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

void put_key(std::string& out, int field, Wire wire) {
  put_varint(out, static_cast<std::uint64_t>(field) << 3 | static_cast<std::uint64_t>(wire));
}

void put_bytes(std::string& out, int field, std::string_view bytes) {
  put_key(out, field, Wire::kLength);
  put_varint(out, bytes.size());
  out += bytes;
}

// Fields of Event in TensorFlow's event.proto and, for scalars, of Summary.Value in summary.proto.
std::string event_of(double wall_time, std::int64_t step, int payload_field,
                     std::string_view payload) {
  std::string event;
  put_key(event, 1, Wire::kFixed64);
  put_raw(event, wall_time);
  put_key(event, 2, Wire::kVarint);
  put_varint(event, static_cast<std::uint64_t>(step));
  put_bytes(event, payload_field, payload);
  return event;
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t crc = ~std::uint32_t{0};
  for (const char c : bytes)
    crc = crc >> 8 ^ kCrcTable[(crc ^ static_cast<unsigned char>(c)) & 0xFF];
  return ~crc;
}

std::string EventFileName::str() const {
  return fmt::format("events.out.tfevents.{}.{}.{}.0", unix_seconds, host, process);
}

EventFileWriter::EventFileWriter(const Path& directory, const EventFileName& name)
    : path_(directory / name.str()) {
  std::error_code cause;
  if (std::filesystem::exists(std::filesystem::symlink_status(path_, cause)))
    fail(ErrorKind::kData, "{}: exists already", path_.string());
  file_.emplace(path_);
  put(event_of(static_cast<double>(name.unix_seconds), 0, 3, "brain.Event:2"));
  flush();
}

void EventFileWriter::add_scalar(std::string_view tag, double value, std::int64_t step,
                                 double wall_time, std::string_view description) {
  std::string entry, summary;
  put_bytes(entry, 1, tag);
  put_key(entry, 2, Wire::kFixed32);
  put_raw(entry, static_cast<float>(value));
  if (!description.empty()) {
    std::string metadata;
    put_bytes(metadata, 3, description);
    put_bytes(entry, 9, metadata);
  }
  put_bytes(summary, 1, entry);
  put(event_of(wall_time, step, 5, summary));
}

// What TensorFlow writes where it starts again from a checkpoint: SessionLog{status: START}.
void EventFileWriter::forget_from(std::int64_t step, double wall_time) {
  std::string session;
  put_key(session, 1, Wire::kVarint);
  put_varint(session, 1);
  put(event_of(wall_time, step, 7, session));
}

void EventFileWriter::put(std::string_view event) {
  std::string record;
  put_raw(record, static_cast<std::uint64_t>(event.size()));
  put_raw(record, masked(record));
  record += event;
  put_raw(record, masked(event));
  unwritten_ += record;
}

void EventFileWriter::flush() { file_->add(std::exchange(unwritten_, {})); }

}  // namespace trireme::formats
