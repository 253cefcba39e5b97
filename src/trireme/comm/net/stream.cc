#include "trireme/comm/net/stream.h"

#include <fcntl.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "trireme/base/os/tcp.h"
#include "trireme/base/os/unsent.h"

namespace trireme::comm {
namespace {

constexpr const char* kClosed = "connection closed by the other side";

void prepare(int socket) {
  const int yes = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  os::outlive_cuts(socket);
  os::keep_little_unsent(socket);
  const int flags = ::fcntl(socket, F_GETFL);
  if (flags < 0 || ::fcntl(socket, F_SETFL, flags | O_NONBLOCK) != 0)
    throw std::runtime_error(std::string("fcntl: ") + std::strerror(errno));
}

class PlainStream final : public Stream {
 public:
  explicit PlainStream(os::Descriptor socket) : socket_(std::move(socket)) {
    prepare(socket_.get());
  }
  int descriptor() const override { return socket_.get(); }

  std::size_t write(const std::byte* data, std::size_t bytes, bool more) override {
    const int flags = MSG_NOSIGNAL | (more ? MSG_MORE : 0);
    std::size_t taken = 0;
    while (taken < bytes) {
      const ssize_t n = ::send(socket_.get(), data + taken, bytes - taken, flags);
      if (n < 0 && would_block()) break;
      if (n >= 0) taken += static_cast<std::size_t>(n);
    }
    return taken;
  }
  std::size_t read(std::byte* into, std::size_t bytes) override {
    for (;;) {
      const ssize_t n = ::recv(socket_.get(), into, bytes, 0);
      if (n > 0) return static_cast<std::size_t>(n);
      if (n == 0) throw std::runtime_error(kClosed);
      if (would_block()) return 0;
    }
  }
  void shut() override { ::shutdown(socket_.get(), SHUT_WR); }

 private:
  // After a failed call: false where it is to be repeated. Throws where the connection is over.
  static bool would_block() {
    if (errno == EAGAIN || errno == EWOULDBLOCK) return true;
    if (errno != EINTR) throw std::runtime_error(std::strerror(errno));
    return false;
  }

  os::Descriptor socket_;
};

class TlsStream final : public Stream {
 public:
  // `make`: the end of a connection over this socket.
  template <typename Make>
  TlsStream(os::Descriptor socket, const Make& make) : socket_(std::move(socket)) {
    prepare(socket_.get());
    end_ = make(socket_.get());
  }
  int descriptor() const override { return socket_.get(); }
  std::size_t write(const std::byte* data, std::size_t bytes, bool) override {
    return end_->write(data, bytes);
  }
  std::size_t read(std::byte* into, std::size_t bytes) override { return end_->read(into, bytes); }
  bool has_pending() const override { return end_->has_pending(); }
  bool waits_for_space(bool) const override { return end_->waits_for_space(); }
  void shut() override {
    end_->shut();
    ::shutdown(socket_.get(), SHUT_WR);
  }

 private:
  os::Descriptor socket_;
  std::unique_ptr<elastic::TlsEnd> end_;  // destroyed before the socket
};

}  // namespace

std::size_t Stream::backlog() const {
  int bytes = 0;
  return ::ioctl(descriptor(), SIOCOUTQ, &bytes) == 0 ? static_cast<std::size_t>(bytes) : 0;
}

std::unique_ptr<Stream> make_plain_stream(os::Descriptor socket) {
  return std::make_unique<PlainStream>(std::move(socket));
}

std::unique_ptr<Stream> make_tls_client(const Tls& tls, os::Descriptor socket,
                                        std::string_view name) {
  return std::make_unique<TlsStream>(std::move(socket),
                                     [&](int at) { return tls.client(name, at); });
}

std::unique_ptr<Stream> make_tls_server(const Tls& tls, os::Descriptor socket,
                                        const elastic::Expected& expected) {
  return std::make_unique<TlsStream>(std::move(socket),
                                     [&](int at) { return tls.server(expected, at); });
}

}  // namespace trireme::comm
