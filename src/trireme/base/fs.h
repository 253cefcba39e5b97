// Files: whole reads, durable writes and memory maps, with errors that name the path and the cause.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace trireme {

using Path = std::filesystem::path;

// Reads a whole regular file. Throws Error{kData} when it is missing, not a regular file or larger
// than `max_bytes`.
std::string read_file(const Path& path, std::size_t max_bytes = std::size_t{1} << 31);

// Writes a new file, fsyncs it, and closes it; refuses to follow a symlink. Not atomic by itself.
// Throws Error{kData}.
void write_file_synced(const Path& path, std::string_view bytes);

// Writes `path` so that a reader sees the old content or the new, never a mixture. Steps: temporary file in the same
// directory, fsync, rename, fsync of the directory.
void replace_file(const Path& path, std::string_view bytes);

// Makes names in a directory durable.
void fsync_directory(const Path& directory);

// Creates a directory and its parents; Error{kUsage} names the path and the cause when it cannot.
void make_directories(const Path& directory);

// Whether opening a symbolic link follows it or fails.
enum class Symlinks { kFollow, kRefuse };

// A read-only memory map of a whole regular file (devices are refused, never waited for). An empty file maps to an
// empty span.
class MappedFile {
 public:
  explicit MappedFile(const Path& path, Symlinks symlinks = Symlinks::kFollow);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace trireme
