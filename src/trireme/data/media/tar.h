// Tar archives as WebDataset has them: members found once, then read at random.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/base/fs.h"

namespace trireme::media {

// A regular file in an archive.
struct TarMember {
  std::string name;
  std::uint64_t offset = 0;  // of its bytes
  std::uint64_t size = 0;
};

// The regular files of an archive in their order: ustar, and of GNU's and pax's headers long names and sizes. Throws Error{kData}
// beginning with `what` for another format, a broken header, and an archive that ends before its end mark.
std::vector<TarMember> parse_tar(std::span<const std::byte> bytes, const std::string& what);

// One sample of a shard: neighbouring members whose names are equal up to the first dot of the file name.
struct ShardSample {
  struct Part {
    std::string extension;  // lower case, without the first dot: "jpg", "seg.png"
    std::uint64_t offset = 0;
    std::uint64_t size = 0;
  };
  std::string key;                            // directory included
  std::vector<Part> parts;                    // as they lie in the archive
  std::vector<std::uint32_t> by_extension{};  // numbers of the parts, sorted by extension

  // The part with that extension, or nullptr; in logarithmic time.
  const Part* find(std::string_view extension) const;
};

// Members whose name has a part like __this__ are left out. Throws Error{kData} as parse_tar, and where a sample has an extension twice.
std::vector<ShardSample> parse_shard(std::span<const std::byte> bytes, const std::string& what);

// A shard on disk, mapped; any number of threads may read it at once.
class Shard {
 public:
  explicit Shard(const Path& path);

  const Path& path() const { return path_; }
  const std::vector<ShardSample>& samples() const { return samples_; }

  bool has(std::size_t sample, std::string_view extension) const;
  // A member's bytes, valid as long as this. Throws Error{kData} naming shard and sample if there is no such member.
  std::span<const std::byte> part(std::size_t sample, std::string_view extension) const;
  // "shard.tar: sample 000012".
  std::string where(std::size_t sample) const;

 private:
  Path path_;
  MappedFile file_;
  std::vector<ShardSample> samples_;
};

// A new archive whose bytes depend on names and contents alone: no owner, no time. Unless finish() returned, no file is left.
class TarWriter {
 public:
  // Throws Error{kData} where the file exists or cannot be written.
  explicit TarWriter(const Path& path);
  ~TarWriter();

  // Error{kUsage} for a name that is empty or longer than ustar's 255 bytes.
  void add(std::string_view name, std::string_view bytes);
  // Writes the end mark and fsyncs.
  void finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trireme::media
