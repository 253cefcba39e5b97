#include "trireme/data/media/tar.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstring>
#include <numeric>
#include <optional>

#include "trireme/base/error.h"
#include "trireme/data/media/tar_header.h"

namespace trireme::media {
namespace {

// A text field: up to the first NUL.
std::string_view text_field(const char* header, const HeaderField& field) {
  const std::string_view whole(header + field.at, field.size);
  return whole.substr(0, whole.find('\0'));
}

// Octal digits between spaces, or, where the first bit is set, a big-endian number.
std::optional<std::uint64_t> number_field(const char* header, const HeaderField& field) {
  const char* at = header + field.at;
  std::uint64_t value = 0;
  if (static_cast<unsigned char>(at[0]) == 0x80) {
    for (std::size_t i = 1; i < field.size; ++i) {
      if (value >> 55) return std::nullopt;
      value = value << 8 | static_cast<unsigned char>(at[i]);
    }
    return value;
  }
  std::string_view digits = text_field(header, field);
  while (digits.starts_with(' ')) digits.remove_prefix(1);
  while (digits.ends_with(' ')) digits.remove_suffix(1);
  if (digits.empty()) return 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 8);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

bool is_zero(const char* block) {
  return std::all_of(block, block + kTarBlock, [](char byte) { return byte == 0; });
}

class TarReader {
 public:
  TarReader(std::span<const std::byte> bytes, const std::string& what)
      : text_(reinterpret_cast<const char*>(bytes.data()), bytes.size()), what_(what) {}

  std::vector<TarMember> read() {
    while (true) {
      if (text_.size() - at_ < kTarBlock)
        fail(ErrorKind::kData, "{}: a tar without its end: truncated at byte {}", what_,
             text_.size());
      const char* header = text_.data() + at_;
      if (is_zero(header)) return std::move(members_);
      take(header);
    }
  }

 private:
  void take(const char* header) {
    const auto sum = number_field(header, kChecksum);
    if (!sum || *sum != header_checksum(header))
      fail(ErrorKind::kData, "{}: no tar header at byte {}", what_, at_);
    const auto stated = number_field(header, kSize);
    if (!stated) fail(ErrorKind::kData, "{}: a member of no size at byte {}", what_, at_);
    const char type = header[kType.at];
    const bool extension = type == 'L' || type == 'K' || type == 'x' || type == 'g';
    const std::uint64_t size = extension ? *stated : size_.value_or(*stated);
    const std::string name = name_.empty() ? name_of(header) : name_;
    const std::uint64_t begin = at_ + kTarBlock;
    if (size > text_.size() - begin)
      fail(ErrorKind::kData,
           "{}: truncated in member {}, whose {} bytes would end at byte {} of {}", what_, name,
           size, begin + size, text_.size());
    const std::string_view body = text_.substr(begin, size);
    at_ = begin + std::min<std::uint64_t>((size + kTarBlock - 1) / kTarBlock * kTarBlock,
                                          text_.size() - begin);
    if (type == 'L') {
      name_ = body.substr(0, body.find('\0'));
    } else if (type == 'x') {
      read_pax(body);
    } else if (!extension) {
      if (type == '0' || type == '\0' || type == '7') members_.push_back({name, begin, size});
      name_.clear();
      size_.reset();
    }
  }

  static std::string name_of(const char* header) {
    std::string name(text_field(header, kName));
    if (std::memcmp(header + kMagic.at, "ustar", 6) != 0) return name;  // old, or GNU's
    const std::string_view prefix = text_field(header, kPrefix);
    return prefix.empty() ? name : std::string(prefix) + "/" + name;
  }

  // Records "LENGTH KEY=VALUE\n".
  void read_pax(std::string_view body) {
    while (!body.empty()) {
      std::size_t length = 0;
      const auto [end, error] = std::from_chars(body.data(), body.data() + body.size(), length);
      const auto digits = static_cast<std::size_t>(end - body.data());
      if (error != std::errc() || length > body.size() || length < digits + 3 ||
          body[digits] != ' ')
        fail(ErrorKind::kData, "{}: a broken pax header before byte {}", what_, at_);
      const std::string_view record = body.substr(digits + 1, length - digits - 2);
      take_pax(record.substr(0, record.find('=')),
               record.substr(std::min(record.find('='), record.size() - 1) + 1));
      body.remove_prefix(length);
    }
  }

  void take_pax(std::string_view key, std::string_view value) {
    if (key == "path") name_ = value;
    if (key != "size") return;
    std::uint64_t size = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), size);
    if (error != std::errc() || end != value.data() + value.size())
      fail(ErrorKind::kData, "{}: a pax header with a size of no number before byte {}", what_,
           at_);
    size_ = size;
  }

  std::string_view text_;
  const std::string& what_;
  std::size_t at_ = 0;
  std::vector<TarMember> members_;
  std::string name_;                   // of the next member, from a header before it
  std::optional<std::uint64_t> size_;  // likewise
};

struct SplitName {
  std::string_view key;
  std::string extension;
};

// Splits at the first dot of the file name; no extension without a dot or with nothing before it.
SplitName split_name(std::string_view name) {
  const std::size_t slash = name.rfind('/');
  const std::size_t begin = slash == name.npos ? 0 : slash + 1;
  const std::size_t dot = name.find('.', begin);
  if (dot == name.npos || dot == begin) return {.key = name, .extension = {}};
  std::string extension(name.substr(dot + 1));
  for (char& letter : extension)
    letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  return {.key = name.substr(0, dot), .extension = std::move(extension)};
}

// Whether a part of the path is of the form __x__: WebDataset keeps notes of its own there.
bool is_note(std::string_view name) {
  while (true) {
    const std::size_t slash = name.find('/');
    const std::string_view part = name.substr(0, slash);
    if (part.size() >= 4 && part.starts_with("__") && part.ends_with("__")) return true;
    if (slash == name.npos) return false;
    name.remove_prefix(slash + 1);
  }
}

// Sorts the parts by extension. Throws Error{kData} where two are equal.
void index_parts(ShardSample& sample, const std::string& what) {
  const auto extension = [&](std::uint32_t part) -> const std::string& {
    return sample.parts[part].extension;
  };
  sample.by_extension.resize(sample.parts.size());
  std::iota(sample.by_extension.begin(), sample.by_extension.end(), 0u);
  std::ranges::sort(sample.by_extension, {}, extension);
  const auto twice = std::ranges::adjacent_find(sample.by_extension, {}, extension);
  if (twice != sample.by_extension.end())
    fail(ErrorKind::kData, "{}: sample {} has .{} twice", what, sample.key, extension(*twice));
}

}  // namespace

std::uint64_t header_checksum(const char* header) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < kTarBlock; ++i) {
    const bool own = i >= kChecksum.at && i < kChecksum.at + kChecksum.size;
    sum += own ? ' ' : static_cast<unsigned char>(header[i]);
  }
  return sum;
}

std::vector<TarMember> parse_tar(std::span<const std::byte> bytes, const std::string& what) {
  return TarReader(bytes, what).read();
}

std::vector<ShardSample> parse_shard(std::span<const std::byte> bytes, const std::string& what) {
  std::vector<ShardSample> samples;
  for (const TarMember& member : parse_tar(bytes, what)) {
    if (is_note(member.name)) continue;
    SplitName name = split_name(member.name);
    if (name.extension.empty()) continue;
    if (samples.empty() || samples.back().key != name.key)
      samples.push_back({.key = std::string(name.key), .parts = {}});
    samples.back().parts.push_back({std::move(name.extension), member.offset, member.size});
  }
  for (ShardSample& sample : samples) index_parts(sample, what);
  return samples;
}

const ShardSample::Part* ShardSample::find(std::string_view extension) const {
  const auto at = [&](std::uint32_t part) -> std::string_view { return parts[part].extension; };
  const auto found = std::ranges::lower_bound(by_extension, extension, {}, at);
  return found == by_extension.end() || at(*found) != extension ? nullptr : &parts[*found];
}

Shard::Shard(const Path& path)
    : path_(path), file_(path), samples_(parse_shard(file_.bytes(), path.string())) {}

bool Shard::has(std::size_t sample, std::string_view extension) const {
  return samples_.at(sample).find(extension) != nullptr;
}

std::span<const std::byte> Shard::part(std::size_t sample, std::string_view extension) const {
  const ShardSample::Part* part = samples_.at(sample).find(extension);
  if (part == nullptr) fail(ErrorKind::kData, "{} has no .{}", where(sample), extension);
  return file_.bytes().subspan(part->offset, part->size);
}

std::string Shard::where(std::size_t sample) const {
  return fmt::format("{}: sample {}", path_.string(), samples_.at(sample).key);
}

}  // namespace trireme::media
