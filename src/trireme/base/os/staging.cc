#include "trireme/base/os/staging.h"

#include <unistd.h>

#include "trireme/base/error.h"

namespace trireme::os {

namespace fs = std::filesystem;

Staging::Staging(const Path& out)
    : out_(out), path_(out.string() + fmt::format(".tmp-{}", ::getpid())) {
  if (out.has_parent_path()) make_directories(out.parent_path());
  fs::remove_all(path_);
  make_directories(path_);
}

Staging::~Staging() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

void Staging::publish() {
  trireme::fsync_directory(path_);
  const Path old = out_.string() + fmt::format(".old-{}", ::getpid());
  std::error_code cause;
  if (fs::exists(out_)) fs::rename(out_, old, cause);
  if (!cause) fs::rename(path_, out_, cause);
  if (cause)
    fail(ErrorKind::kUsage, "cannot put the dataset at {}: {}", out_.string(), cause.message());
  fs::remove_all(old, cause);
  trireme::fsync_directory(out_.has_parent_path() ? out_.parent_path() : Path("."));
}

Path check_new_directory(const Path& out) {
  std::error_code cause;
  if (out.empty()) fail(ErrorKind::kUsage, "no output directory is given");
  const fs::file_status status = fs::symlink_status(out, cause);
  if (fs::exists(status) && !(fs::is_directory(status) && fs::is_empty(out, cause)))
    fail(ErrorKind::kUsage, "{} exists and is not an empty directory; choose another",
         out.string());
  return (out / "").lexically_normal().parent_path();
}

}  // namespace trireme::os
