#include "guard.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iostream>

namespace trireme::app {
namespace {

// A pipe whose other end is closed, a terminal that is gone.
bool has_lost_its_reader(int descriptor) {
  pollfd output{.fd = descriptor, .events = POLLOUT, .revents = 0};
  return ::poll(&output, 1, 0) == 1 && (output.revents & (POLLERR | POLLHUP)) != 0;
}

Error output_error(int cause) {
  return {ErrorKind::kData,
          fmt::format("standard output could not be written{}{}; send it to a place that takes it",
                      cause == 0 ? "" : ": ", cause == 0 ? "" : std::strerror(cause))};
}

}  // namespace

Error explained(const std::system_error& error) {
  const std::error_code& code = error.code();
  if (code == std::errc::too_many_files_open || code == std::errc::too_many_files_open_in_system)
    return {ErrorKind::kUsage,
            fmt::format("too few file descriptors: {}; raise ulimit -n", error.what())};
  if (code == std::errc::resource_unavailable_try_again)
    return {ErrorKind::kUsage,
            fmt::format("too few processes or threads: {}; start fewer ranks, or "
                        "raise ulimit -u and the container's limit of processes",
                        error.what())};
  if (std::ferror(stdout) != 0) return output_error(code.value());
  return {ErrorKind::kInternal, error.what()};
}

void occupy_standard_streams() {
  // Opened so that what is printed still fails.
  for (const int stream : {0, 1, 2})
    if (::fcntl(stream, F_GETFD) < 0) (void)!::open("/dev/null", stream == 0 ? O_WRONLY : O_RDONLY);
}

int after_output(int code) {
  errno = 0;
  std::cout.flush();
  const bool failed = std::fflush(stdout) != 0;
  if (!failed && std::ferror(stdout) == 0) return code;
  const int cause = errno;
  if (has_lost_its_reader(STDOUT_FILENO)) return code;
  // 1 and 6 are answers, which were lost with the output; other codes have said already what failed.
  constexpr int kAnswers[] = {0, 1, 6};
  if (std::ranges::find(kAnswers, code) == std::end(kAnswers)) return code;
  return report(output_error(cause));
}

}  // namespace trireme::app
