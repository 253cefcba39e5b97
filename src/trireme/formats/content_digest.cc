#include "trireme/formats/content_digest.h"

#include <algorithm>

#include "trireme/base/hash.h"

namespace trireme::formats {
namespace {

constexpr std::size_t kSampledFiles = 256, kSampledBlocks = 16, kSampledBytes = 4096;

// The first and the last of `count`, and others evenly between them; all where they are fewer.
std::size_t spread(std::size_t i, std::size_t wanted, std::size_t count) {
  return count <= wanted ? i : i * (count - 1) / (wanted - 1);
}

std::uint64_t digest_blocks(std::span<const std::byte> bytes) {
  const std::size_t blocks = (bytes.size() + kSampledBytes - 1) / kSampledBytes;
  std::uint64_t digest = bytes.size();
  for (std::size_t i = 0; i < std::min(blocks, kSampledBlocks); ++i) {
    const std::size_t at = spread(i, kSampledBlocks, blocks) * kSampledBytes;
    digest = mix(digest, hash64(bytes.subspan(at, std::min(kSampledBytes, bytes.size() - at))));
  }
  return digest;
}

}  // namespace

std::uint64_t content_digest(std::span<const Path> files, Contents contents) {
  const bool all = contents == Contents::kAll;
  const std::size_t count = all ? files.size() : std::min(files.size(), kSampledFiles);
  std::uint64_t digest = files.size();
  std::error_code cause;
  for (std::size_t i = 0; i < count; ++i) {
    const Path& path = files[all ? i : spread(i, kSampledFiles, files.size())];
    if (!std::filesystem::exists(path, cause)) {
      digest = mix(digest, 0);
      continue;
    }
    const MappedFile file(path);
    digest = mix(digest, all ? hash64(file.bytes()) : digest_blocks(file.bytes()));
  }
  return digest;
}

}  // namespace trireme::formats
