// Facts about files that a file system gives without reading them, to detect changed files.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "trireme/base/fs.h"

namespace trireme::os {

// Changes whenever the file's bytes do, unless the machine's clock was set back.
struct FileFacts {
  std::int64_t size = 0;
  std::int64_t modified_ns = 0;  // can be set by programs such as touch and cp -p
  std::int64_t changed_ns = 0;   // set by the kernel alone
  std::uint64_t inode = 0;
  std::uint64_t device = 0;
};

// Facts of the file itself, not of what a symbolic link names; nothing where it is absent.
std::optional<FileFacts> facts_of(const Path& path);

// A digest of the names and facts of these files; absent ones count as well. Nothing where one was changed within the last
// second: a second change so soon might leave the same facts.
std::optional<std::uint64_t> facts_digest(std::span<const Path> files);

// Files of `files` that the kernel changed after it changed `last`.
std::vector<Path> changed_after(const Path& last, std::span<const Path> files);

}  // namespace trireme::os
