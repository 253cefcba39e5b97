// FeatureStore: what a frozen network made of its inputs, kept in files by the hashes of both.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trireme/base/fs.h"

namespace trireme::formats {

// 128 bits of XXH3.
struct ContentHash {
  std::uint64_t high = 0, low = 0;
  bool operator==(const ContentHash&) const = default;
};
ContentHash content_hash(std::span<const std::byte> bytes);

// An entry is a file DIRECTORY/NETWORK/HH/HASH of a header and the bytes. It appears whole or not at all, so that any
// number of processes may read and keep the same at once. Entries are checked when they are read. Nothing is ever
// removed: the directory grows by an entry for each input. Delete the directory of a network that is no longer of use.
// Thread-safe.
class FeatureStore {
 public:
  // `network` is the hash of what computes. Directories are made when something is kept.
  FeatureStore(const Path& directory, std::uint64_t network);

  // The stored `size` bytes; nothing if there is no entry, or if it is damaged, which is noted.
  std::optional<std::vector<std::byte>> find(const ContentHash& input, std::size_t size) const;
  // Throws Error{kData} naming vlm.features and the file where it cannot be written.
  void keep(const ContentHash& input, std::span<const std::byte> bytes) const;

  // Each damaged entry that was found, with the cause.
  std::vector<std::string> damaged() const;
  Path path(const ContentHash& input) const;

 private:
  void note(const Path& path, const std::string& cause) const;

  Path directory_;
  mutable std::mutex mutex_;
  mutable std::vector<std::string> damaged_;
};

}  // namespace trireme::formats
