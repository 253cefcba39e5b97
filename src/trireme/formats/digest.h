// Content digests of files, made while writing or by reading back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "trireme/base/fs.h"

namespace trireme::formats {

// XXH3-64 of a whole file and of each MiB of it, so that damage can be placed.
struct FileDigest {
  std::int64_t size = 0;
  std::uint64_t hash = 0;
  std::vector<std::uint64_t> mib_hashes;
};

// A new file, written front to back and digested on the way. The file must not exist yet. Unless
// finish() returned, the destructor removes it. Throws Error{kData} naming the path and the cause.
class DigestWriter {
 public:
  explicit DigestWriter(const Path& path);
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

// The digest of an existing regular file; symbolic links are refused.
FileDigest digest_file(const Path& path);

}  // namespace trireme::formats
