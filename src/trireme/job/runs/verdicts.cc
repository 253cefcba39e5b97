#include "trireme/job/runs/verdicts.h"

#include <filesystem>

#include "trireme/base/error.h"
#include "trireme/base/hash.h"
#include "trireme/base/os/file_facts.h"

namespace trireme::runs {

CheckedFiles::CheckedFiles(const FindCache& cache, const Path& name, std::span<const Path> files) {
  if (const std::optional<std::uint64_t> facts = os::facts_digest(files)) facts_ = hex64(*facts);
  try {
    const std::string whole = std::filesystem::weakly_canonical(name).string();
    entry_ = cache() / "checked" / hex64(hash64(whole));
  } catch (const Error&) {  // no cache: nothing is kept
  }
}

std::optional<std::string> CheckedFiles::verdict() const {
  std::error_code absent;
  if (facts_.empty() || entry_.empty() || !std::filesystem::is_regular_file(entry_, absent))
    return std::nullopt;
  try {
    const std::string text = read_file(entry_);
    const std::size_t line = text.find('\n');
    if (line == text.npos || text.substr(0, line) != facts_) return std::nullopt;
    return text.substr(line + 1);
  } catch (const Error&) {
    return std::nullopt;
  }
}

void CheckedFiles::keep(const std::string& problem) const {
  if (facts_.empty() || entry_.empty()) return;
  try {
    make_in_cache(entry_.parent_path());
    replace_file(entry_, facts_ + "\n" + problem);
  } catch (const Error&) {  // a cache that cannot be written
  }
}

}  // namespace trireme::runs
