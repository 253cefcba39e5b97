#include "limits.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>

#include <cerrno>
#include <cstring>
#include <latch>
#include <vector>

#include "trireme/base/error.h"
#include "trireme/base/os/descriptor.h"

namespace trireme::app {
namespace {

void* wait_for_all(void* latch) {
  static_cast<std::latch*>(latch)->wait();
  return nullptr;
}

}  // namespace

void check_threads(int count) {
  std::latch end(1);
  std::vector<pthread_t> threads;
  int cause = 0;
  for (pthread_t thread; cause == 0 && static_cast<int>(threads.size()) < count;) {
    cause = ::pthread_create(&thread, nullptr, wait_for_all, &end);
    if (cause == 0) threads.push_back(thread);
  }
  end.count_down();
  for (const pthread_t thread : threads) ::pthread_join(thread, nullptr);
  if (cause != 0)
    fail(ErrorKind::kUsage,
         "too few processes or threads: {} more were started, at least {} are needed ({}); start "
         "fewer ranks, or raise ulimit -u and the container's limit of processes (pids.max)",
         threads.size(), count, std::strerror(cause));
}

void check_descriptors(int count) {
  std::vector<os::Descriptor> opened;
  while (static_cast<int>(opened.size()) < count) {
    opened.emplace_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (!opened.back().open())
      fail(ErrorKind::kUsage,
           "too few file descriptors: {} more could be opened, {} are needed ({}); raise ulimit -n",
           opened.size() - 1, count, std::strerror(errno));
  }
}

void raise_descriptors() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace trireme::app
