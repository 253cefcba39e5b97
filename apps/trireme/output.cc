#include "output.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "apps/colour.h"
#include "trireme/base/error.h"
#include "trireme/base/fs.h"

namespace trireme::app {

void check_output(const std::string& file, std::string_view key) {
  if (file.empty()) return;
  std::error_code cause;
  const Path path(file);
  const auto status = std::filesystem::symlink_status(path, cause);
  const bool there = std::filesystem::exists(status);
  if (there && !std::filesystem::is_regular_file(status))
    fail(ErrorKind::kUsage, "{} {}: needs a regular file or a new one", key, file);
  const Path directory = path.has_parent_path() ? path.parent_path() : Path(".");
  const int missing =
      there ? ::access(path.c_str(), W_OK) : ::access((directory / "").c_str(), W_OK | X_OK);
  if (missing != 0)
    fail(ErrorKind::kUsage, "{} {}: cannot write: {}", key, file, std::strerror(errno));
}

void print_warning(std::string_view text) {
  fmt::print("{} {}\n", coloured(STDOUT_FILENO, Colour::kYellow, "warning  "), text);
}

}  // namespace trireme::app
