// N ranks as N threads of the test, on any back end that allows it.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <string>

#include "trireme/base/error.h"
#include "trireme/comm/local/local_world.h"
#include "trireme/comm/processes.h"

namespace trireme::harness {

enum class Backend { kLocal, kShm, kGloo };

inline std::string name(Backend backend) {
  constexpr const char* kNames[] = {"local", "shm", "gloo"};
  return kNames[static_cast<int>(backend)];
}

// A TCP port of the loopback that was free a moment ago.
inline int free_port() {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  const bool bound = bind(fd, reinterpret_cast<sockaddr*>(&address), length) == 0 &&
                     getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) == 0;
  close(fd);
  TRIREME_CHECK(bound, "no free port");
  return ntohs(address.sin_port);
}

// Runs body on every rank and joins; rethrows the first error that is not an echo (see
// comm::run_local_ranks). Shm and Gloo ranks know as little of each other as processes do.
inline void run_ranks(Backend backend, int size, double timeout_s,
                      const std::function<void(comm::World&)>& body) {
  if (backend == Backend::kLocal) return comm::run_local_ranks(size, timeout_s, body);
  const int port = free_port();
  comm::run_ranks(size, body, [&](int rank) {
    return comm::connect_processes(
        {.rank = rank, .size = size, .port = port, .timeout_s = timeout_s},
        backend == Backend::kShm ? comm::Route::kShm : comm::Route::kGloo);
  });
}

}  // namespace trireme::harness
