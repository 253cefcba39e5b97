#include "trireme/job/runs/cache.h"

#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "trireme/base/error.h"

namespace trireme::runs {

void make_in_cache(const Path& directory) {
  std::error_code cause;
  std::filesystem::create_directories(directory, cause);
  if (!cause && ::access(directory.c_str(), W_OK | X_OK) != 0)
    cause = {errno, std::generic_category()};
  if (cause)
    fail(
        ErrorKind::kUsage,
        "cannot write to the cache directory {}: {}. Set XDG_CACHE_HOME to a directory that can be "
        "written",
        directory.string(), cause.message());
}

}  // namespace trireme::runs
