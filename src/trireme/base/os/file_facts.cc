#include "trireme/base/os/file_facts.h"

#include <sys/stat.h>

#include <algorithm>
#include <ctime>

#include "trireme/base/hash.h"

namespace trireme::os {
namespace {

constexpr std::int64_t kSecondNs = 1'000'000'000;

std::int64_t in_ns(const timespec& time) { return time.tv_sec * kSecondNs + time.tv_nsec; }

}  // namespace

std::optional<FileFacts> facts_of(const Path& path) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0) return std::nullopt;
  return FileFacts{.size = info.st_size,
                   .modified_ns = in_ns(info.st_mtim),
                   .changed_ns = in_ns(info.st_ctim),
                   .inode = info.st_ino,
                   .device = info.st_dev};
}

std::optional<std::uint64_t> facts_digest(std::span<const Path> files) {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  std::uint64_t digest = files.size();
  for (const Path& file : files) {
    digest = mix(digest, hash64(std::filesystem::absolute(file).lexically_normal().string()));
    const std::optional<FileFacts> facts = facts_of(file);
    if (!facts) continue;
    if (facts->changed_ns > in_ns(now) - kSecondNs) return std::nullopt;
    for (const std::uint64_t fact :
         {static_cast<std::uint64_t>(facts->size), static_cast<std::uint64_t>(facts->modified_ns),
          static_cast<std::uint64_t>(facts->changed_ns), facts->inode, facts->device})
      digest = mix(digest, fact);
  }
  return digest;
}

std::vector<Path> changed_after(const Path& last, std::span<const Path> files) {
  const std::optional<FileFacts> limit = facts_of(last);
  std::vector<Path> changed;
  for (const Path& file : files) {
    const std::optional<FileFacts> facts = facts_of(file);
    if (facts && (!limit || facts->changed_ns > limit->changed_ns)) changed.push_back(file);
  }
  return changed;
}

}  // namespace trireme::os
