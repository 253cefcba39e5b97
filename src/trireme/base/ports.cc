#include "trireme/base/ports.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <random>

#include "trireme/base/error.h"

namespace trireme {
namespace {

// Binds a socket to `port` of an address (0: any port) and returns the port it had, or -1.
int try_port(std::uint32_t host, int port) {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (socket < 0) return -1;
  const int yes = 1;  // as servers do: connections that are closing do not count
  ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(host);
  socklen_t size = sizeof address;
  const bool bound = ::bind(socket, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
                     ::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  const int cause = errno;
  ::close(socket);
  errno = cause;
  return bound ? ntohs(address.sin_port) : -1;
}

// The first that the kernel gives to connecting sockets.
int first_ephemeral_port() {
  int first = 32768;
  std::ifstream("/proc/sys/net/ipv4/ip_local_port_range") >> first;
  return first;
}

}  // namespace

bool can_listen(int port) { return try_port(INADDR_ANY, port) >= 0; }

int free_port() {
  constexpr int kFirst = 10000, kFewest = 1000, kTries = 100;
  const int end = first_ephemeral_port();
  if (end - kFirst >= kFewest) {
    std::random_device random;
    std::uniform_int_distribution<int> port(kFirst, end - 1);
    for (int i = 0; i < kTries; ++i)
      if (const int one = port(random); can_listen(one)) return one;
  }
  const int port = try_port(INADDR_LOOPBACK, 0);
  if (port < 0)
    fail(ErrorKind::kUsage, "no free port on the loopback interface: {}", std::strerror(errno));
  return port;
}

}  // namespace trireme
