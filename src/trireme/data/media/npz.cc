#include "trireme/data/media/npz.h"

#include <charconv>
#include <cstring>
#include <limits>

#include "trireme/base/error.h"

namespace trireme::media {
namespace {

// Little-endian numbers at any place; refuses what is not inside.
class Fields {
 public:
  Fields(std::span<const std::byte> bytes, const std::string& what) : bytes_(bytes), what_(what) {}

  std::uint64_t number(std::uint64_t at, std::size_t size) const {
    std::uint64_t value = 0;
    std::memcpy(&value, part(at, size).data(), size);
    return value;
  }
  std::span<const std::byte> part(std::uint64_t at, std::uint64_t size) const {
    if (at > bytes_.size() || size > bytes_.size() - at)
      fail(ErrorKind::kData, "{}: truncated or corrupt: {} bytes at {} of {}", what_, size, at,
           bytes_.size());
    return bytes_.subspan(at, size);
  }
  std::string_view text(std::uint64_t at, std::uint64_t size) const {
    const auto bytes = part(at, size);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  std::uint64_t size() const { return bytes_.size(); }

 private:
  std::span<const std::byte> bytes_;
  const std::string& what_;
};

// What stands behind 'key': in the header, a Python dictionary.
std::string_view value_behind(std::string_view header, std::string_view key,
                              const std::string& what) {
  const std::size_t at = header.find(fmt::format("'{}':", key));
  if (at == header.npos) fail(ErrorKind::kData, "{}: an npy header without {}", what, key);
  std::string_view rest = header.substr(at + key.size() + 3);
  while (rest.starts_with(' ')) rest.remove_prefix(1);
  return rest;
}

std::vector<std::int64_t> parse_shape(std::string_view text, const std::string& what) {
  std::vector<std::int64_t> shape;
  const auto refuse = [&] {
    fail(ErrorKind::kData, "{}: an npy header with a shape that is none", what);
  };
  if (!text.starts_with('(')) refuse();
  text.remove_prefix(1);
  while (!text.starts_with(')')) {
    std::int64_t side = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), side);
    if (error != std::errc() || side < 0 || shape.size() == 16) refuse();
    shape.push_back(side);
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    while (text.starts_with(',') || text.starts_with(' ')) text.remove_prefix(1);
    if (text.empty()) refuse();
  }
  return shape;
}

std::size_t width_of(NpyArray::Type type) {
  switch (type) {
    case NpyArray::Type::kU8: return 1;
    case NpyArray::Type::kF32: return 4;
    case NpyArray::Type::kF64: break;
  }
  return 8;
}

NpyArray::Type parse_type(std::string_view text, const std::string& what) {
  if (text.starts_with("'|u1'")) return NpyArray::Type::kU8;
  if (text.starts_with("'<f4'")) return NpyArray::Type::kF32;
  if (text.starts_with("'<f8'")) return NpyArray::Type::kF64;
  fail(ErrorKind::kData, "{}: an array of type {}; u1, f4 and f8 are read", what,
       text.substr(0, std::min<std::size_t>(text.find(','), 8)));
}

template <typename Value>
void append_values(std::span<const std::byte> bytes, std::vector<double>& values) {
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(Value)) {
    Value value;
    std::memcpy(&value, bytes.data() + at, sizeof value);
    values.push_back(value);
  }
}

// Where the list of a zip's members begins and how many there are: at its end, before a comment.
struct ZipEnd {
  std::uint64_t at = 0;
  std::uint64_t members = 0;
};

ZipEnd find_zip_end(const Fields& file, const std::string& what) {
  constexpr std::uint64_t kEnd = 22, kMaxComment = 65535;
  for (std::uint64_t back = kEnd; back <= file.size() && back <= kEnd + kMaxComment; ++back) {
    const std::uint64_t at = file.size() - back;
    if (file.number(at, 4) == 0x06054b50)
      return {.at = file.number(at + 16, 4), .members = file.number(at + 10, 2)};
  }
  fail(ErrorKind::kData, "{}: no npz: not a zip file, or truncated", what);
}

// Bytes of the member whose entry of the list is at `entry`.
std::span<const std::byte> stored_member(const Fields& file, std::uint64_t entry,
                                         const std::string& what) {
  constexpr std::uint64_t kElsewhere = 0xffffffff;  // zip64: more than 4 GiB
  if (file.number(entry + 10, 2) != 0)
    fail(ErrorKind::kData, "{}: compressed; write it with numpy.savez", what);
  const std::uint64_t size = file.number(entry + 24, 4), local = file.number(entry + 42, 4);
  if (size == kElsewhere || local == kElsewhere)
    fail(ErrorKind::kData, "{}: arrays of more than 4 GiB are not read", what);
  if (file.number(local, 4) != 0x04034b50)
    fail(ErrorKind::kData, "{}: a zip whose list points elsewhere", what);
  return file.part(local + 30 + file.number(local + 26, 2) + file.number(local + 28, 2), size);
}

}  // namespace

std::int64_t NpyArray::count() const {
  return static_cast<std::int64_t>(bytes.size() / width_of(type));
}

std::vector<double> NpyArray::values() const {
  std::vector<double> all;
  all.reserve(static_cast<std::size_t>(count()));
  switch (type) {
    case Type::kU8: append_values<std::uint8_t>(bytes, all); break;
    case Type::kF32: append_values<float>(bytes, all); break;
    case Type::kF64: append_values<double>(bytes, all); break;
  }
  return all;
}

NpyArray parse_npy(std::span<const std::byte> bytes, const std::string& what) {
  const Fields file(bytes, what);
  if (file.text(0, 6) != "\x93NUMPY") fail(ErrorKind::kData, "{}: no npy array", what);
  const std::size_t width = file.number(6, 1) == 1 ? 2 : 4;  // of the header's length
  const std::uint64_t length = file.number(8, width);
  const std::string_view header = file.text(8 + width, length);
  if (!value_behind(header, "fortran_order", what).starts_with("False"))
    fail(ErrorKind::kData, "{}: an array in Fortran order; write it in C order", what);
  NpyArray array{.type = parse_type(value_behind(header, "descr", what), what),
                 .shape = parse_shape(value_behind(header, "shape", what), what),
                 .bytes = {}};
  std::uint64_t size = width_of(array.type);
  for (const std::int64_t side : array.shape) {
    const auto factor = static_cast<std::uint64_t>(side);
    if (factor != 0 && size > std::numeric_limits<std::uint64_t>::max() / factor)
      fail(ErrorKind::kData, "{}: an array of a shape beyond counting", what);
    size *= factor;
  }
  array.bytes = file.part(8 + width + length, size);
  return array;
}

std::map<std::string, NpyArray> parse_npz(std::span<const std::byte> bytes,
                                          const std::string& what) {
  const Fields file(bytes, what);
  const ZipEnd end = find_zip_end(file, what);
  std::map<std::string, NpyArray> arrays;
  std::uint64_t entry = end.at;
  for (std::uint64_t i = 0; i < end.members; ++i) {
    if (file.number(entry, 4) != 0x02014b50)
      fail(ErrorKind::kData, "{}: a zip with a broken list of members", what);
    const std::uint64_t name_size = file.number(entry + 28, 2);
    std::string name(file.text(entry + 46, name_size));
    const std::string where = fmt::format("{}: {}", what, name);
    if (name.ends_with(".npy")) name.resize(name.size() - 4);
    arrays.insert_or_assign(name, parse_npy(stored_member(file, entry, where), where));
    entry += 46 + name_size + file.number(entry + 30, 2) + file.number(entry + 32, 2);
  }
  return arrays;
}

}  // namespace trireme::media
