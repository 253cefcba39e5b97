#include "trireme/formats/feature_store.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <fstream>
#include <string_view>

#include "trireme/base/error.h"
#include "trireme/base/hash.h"

namespace trireme::formats {
namespace {

// Host order: a directory is read where it was written, or found damaged.
struct Header {
  std::uint64_t magic = kMagic;
  ContentHash input;
  std::uint64_t size = 0;  // bytes after it
  std::uint64_t hash = 0;  // of these

  static constexpr std::uint64_t kMagic = 0x3154414546495254;  // "TRIFEAT1"
};
static_assert(sizeof(Header) == 40);

Header header_of(const ContentHash& input, std::span<const std::byte> bytes) {
  return {.input = input, .size = bytes.size(), .hash = hash64(bytes)};
}

}  // namespace

ContentHash content_hash(std::span<const std::byte> bytes) {
  constexpr std::uint64_t kOther = 0x666561747572ULL;
  return {.high = hash64(bytes), .low = hash64(bytes, kOther)};
}

FeatureStore::FeatureStore(const Path& directory, std::uint64_t network)
    : directory_(directory / hex64(network)) {}

Path FeatureStore::path(const ContentHash& input) const {
  const std::string name = hex64(input.high) + hex64(input.low);
  return directory_ / name.substr(0, 2) / name;
}

std::optional<std::vector<std::byte>> FeatureStore::find(const ContentHash& input,
                                                         std::size_t size) const {
  const Path path = this->path(input);
  std::error_code cause;
  if (!std::filesystem::exists(path, cause)) return std::nullopt;
  try {
    const MappedFile file(path);
    const std::span<const std::byte> all = file.bytes();
    Header header;
    if (all.size() != sizeof(header) + size) {
      note(path, fmt::format("{} bytes instead of {}", all.size(), sizeof(header) + size));
      return std::nullopt;
    }
    std::memcpy(&header, all.data(), sizeof(header));
    const std::span<const std::byte> bytes = all.subspan(sizeof(header));
    const Header wanted = header_of(input, bytes);
    if (std::memcmp(&header, &wanted, sizeof(header)) == 0)
      return std::vector<std::byte>(bytes.begin(), bytes.end());
    note(path, "its hash does not fit");
  } catch (const Error& error) {
    note(path, error.what());
  }
  return std::nullopt;
}

void FeatureStore::keep(const ContentHash& input, std::span<const std::byte> bytes) const {
  static std::atomic<std::uint64_t> count = 0;
  const Path path = this->path(input);
  Path draft = path;
  draft += fmt::format(".{}-{}", ::getpid(), count++);
  const Header header = header_of(input, bytes);
  // Not synced: entries that a power loss damages are detected and recomputed.
  const auto write = [&] {
    std::ofstream file(draft, std::ios::binary);
    file.write(reinterpret_cast<const char*>(&header), sizeof(header));
    file.write(reinterpret_cast<const char*>(bytes.data()), std::ssize(bytes));
    file.close();
    return !file.fail();
  };
  std::error_code cause;
  std::filesystem::create_directories(path.parent_path(), cause);
  if (!cause && write()) {
    std::filesystem::rename(draft, path, cause);
    if (!cause) return;
  }
  std::error_code ignored;
  std::filesystem::remove(draft, ignored);
  fail(
      ErrorKind::kData,
      "vlm.features: {}: cannot write it; free some space, name another directory, or leave it out",
      path.string());
}

std::vector<std::string> FeatureStore::damaged() const {
  const std::lock_guard lock(mutex_);
  return damaged_;
}

void FeatureStore::note(const Path& path, const std::string& cause) const {
  const std::lock_guard lock(mutex_);
  damaged_.push_back(fmt::format("{}: a damaged entry of vlm.features: {}", path.string(), cause));
}

}  // namespace trireme::formats
