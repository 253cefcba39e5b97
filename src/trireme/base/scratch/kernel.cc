#include "trireme/base/scratch/kernel.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <string>

#include "trireme/base/scratch/pages.h"

namespace trireme::scratch {
namespace {

template <typename Call>
auto retried(const Call& call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result < 0 ? static_cast<decltype(result)>(-errno) : result;
}

int open_and_unlink(const Path& directory) {
  constexpr std::size_t kFilledIn = 6;  // letters X that mkostemp replaces
  std::string pattern = (directory / "scratch-").string() + std::string(kFilledIn, 'X');
  const int file = retried([&] { return ::mkostemp(pattern.data(), O_CLOEXEC); });
  if (file >= 0) ::unlink(pattern.c_str());
  return file;
}

}  // namespace

int Kernel::open_unnamed(const Path& directory) {
  const int file =
      retried([&] { return ::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600); });
  // What file systems and kernels without unnamed files say.
  const bool unsupported = file == -EOPNOTSUPP || file == -EISDIR;
  return unsupported ? open_and_unlink(directory) : file;
}

int Kernel::set_direct(int file) {
  const int flags = retried([&] { return ::fcntl(file, F_GETFL); });
  if (flags < 0) return flags;
  const int set = retried([&] { return ::fcntl(file, F_SETFL, flags | O_DIRECT); });
  if (set < 0) return set;
  // Some accept the flag and refuse the transfer.
  const Pages page(kPage);
  std::fill_n(page.data(), kPage, std::byte{0});
  const auto written =
      retried([&] { return ::pwrite(file, page.data(), static_cast<std::size_t>(kPage), 0); });
  if (written != -EINVAL && written != -EOPNOTSUPP) return 0;
  ::fcntl(file, F_SETFL, flags);
  return static_cast<int>(written);
}

int Kernel::allocate(int file, std::int64_t bytes) {
  const int result = retried([&] { return ::fallocate(file, 0, 0, bytes); });
  if (result < 0 && ::ftruncate(file, 0) < 0) return -errno;
  return result;
}

std::int64_t Kernel::free_bytes(int file) {
  struct statvfs info {};
  if (::fstatvfs(file, &info) != 0) return -errno;
  return static_cast<std::int64_t>(info.f_bavail) * static_cast<std::int64_t>(info.f_frsize);
}

std::int64_t Kernel::transfer(int file, const Request& request) {
  const auto size = static_cast<std::size_t>(request.bytes);
  return retried([&] {
    return request.direction == Direction::kWrite
               ? ::pwrite(file, request.data, size, request.offset)
               : ::pread(file, request.data, size, request.offset);
  });
}

std::int64_t Kernel::completed(const Request&, std::int64_t result) { return result; }

}  // namespace trireme::scratch
