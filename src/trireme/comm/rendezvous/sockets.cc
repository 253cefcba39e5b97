#include "trireme/comm/rendezvous/sockets.h"

#include <netdb.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <thread>

#include "trireme/base/clock.h"
#include "trireme/base/error.h"

namespace trireme::comm {
namespace {

class Socket {
 public:
  Socket(int family, int type) : fd_(socket(family, type | SOCK_CLOEXEC, 0)) {}
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  ~Socket() {
    if (fd_ >= 0) close(fd_);
  }
  int fd() const { return fd_; }

 private:
  int fd_;
};

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

Addresses resolve(const std::string& host, int port, int type) {
  addrinfo hints{};
  hints.ai_socktype = type;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found))
    throw std::runtime_error(host + ": " + gai_strerror(error));
  return {found, &freeaddrinfo};
}

}  // namespace

void check_sigpipe() {
  struct sigaction now {};
  ::sigaction(SIGPIPE, nullptr, &now);
  TRIREME_CHECK(now.sa_handler != SIG_DFL,
                "a lost rank would end this one by SIGPIPE; ignore that before ranks connect");
}

std::string address_towards(const std::string& host, int port) {
  const Addresses found = resolve(host, port, SOCK_DGRAM);
  const Socket socket(found->ai_family, SOCK_DGRAM);
  sockaddr_storage self{};
  socklen_t length = sizeof(self);
  // Connecting a datagram socket picks a route and sends nothing.
  if (connect(socket.fd(), found->ai_addr, found->ai_addrlen) != 0 ||
      getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&self), &length) != 0)
    throw std::runtime_error("no route to " + host + ": " + std::strerror(errno));
  char text[NI_MAXHOST];
  if (const int error = getnameinfo(reinterpret_cast<sockaddr*>(&self), length, text, sizeof(text),
                                    nullptr, 0, NI_NUMERICHOST))
    throw std::runtime_error(gai_strerror(error));
  return text;
}

std::string why_not_listen(int port) {
  const Socket socket(AF_INET, SOCK_STREAM);
  const int yes = 1;
  setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  if (bind(socket.fd(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0 &&
      listen(socket.fd(), 1) == 0)
    return "";
  return std::strerror(errno);
}

std::string await_listener(const std::string& host, int port, double seconds) {
  const Stopwatch watch;
  std::string why;
  do {
    try {
      const Addresses found = resolve(host, port, SOCK_STREAM);
      for (const addrinfo* at = found.get(); at; at = at->ai_next) {
        const Socket socket(at->ai_family, SOCK_STREAM);
        if (connect(socket.fd(), at->ai_addr, at->ai_addrlen) == 0) return "";
        why = std::strerror(errno);
      }
    } catch (const std::runtime_error& e) {
      why = e.what();  // a name may appear with its host
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  } while (watch.seconds() < seconds);
  return why;
}

}  // namespace trireme::comm
