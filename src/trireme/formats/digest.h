// Content digests of files, made while writing or by reading back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "trireme/base/fs.h"
#include "trireme/base/os/file_system.h"

namespace trireme::formats {

// XXH3-64 of a whole file and of each MiB of it, so that damage can be placed.
struct FileDigest {
  static constexpr std::size_t kBlock = std::size_t{1} << 20;  // bytes; the last may be shorter

  std::int64_t size = 0;
  std::uint64_t hash = 0;
  std::vector<std::uint64_t> mib_hashes;
  bool operator==(const FileDigest&) const = default;
};

// A new file, written front to back and digested on the way. The file must not exist yet. Unless
// finish() returned, the destructor removes it. Throws Error{kData} naming the path and the cause.
class DigestWriter {
 public:
  explicit DigestWriter(const Path& path, os::FileSystem& files = os::real_file_system());
  ~DigestWriter();
  DigestWriter(DigestWriter&& other) noexcept;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view bytes);

  // Flushes, fsyncs and closes.
  FileDigest finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

FileDigest digest_of(std::span<const std::byte> bytes);
// The same, and the hash alone, of which a few MiB at a time are in memory.
FileDigest digest_of(const os::Contents& contents);
std::uint64_t hash_of(const os::Contents& contents);
// Hash of each block.
std::vector<std::uint64_t> block_hashes(std::span<const std::byte> bytes);

// The digest of an existing regular file; symbolic links are refused.
FileDigest digest_file(const Path& path);

}  // namespace trireme::formats
