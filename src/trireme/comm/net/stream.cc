#include "trireme/comm/net/stream.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/launch/elastic/secret.h"

namespace trireme::comm {
namespace {

constexpr const char* kClosed = "connection closed by the other side";

void prepare(int socket) {
  const int yes = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
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

// The oldest error of this thread's queue, which is empty afterwards.
std::string tls_error(const char* otherwise) {
  const unsigned long code = ::ERR_get_error();
  ::ERR_clear_error();
  const char* reason = code == 0 ? nullptr : ::ERR_reason_error_string(code);
  return std::string("TLS: ") + (reason != nullptr ? reason : otherwise);
}

struct FreeSsl {
  void operator()(SSL* ssl) const { ::SSL_free(ssl); }
};
using Ssl = std::unique_ptr<SSL, FreeSsl>;

class TlsStream final : public Stream {
 public:
  // `identity`: what a client presents.
  TlsStream(os::Descriptor socket, Ssl ssl, std::string identity = {})
      : socket_(std::move(socket)), identity_(std::move(identity)), ssl_(std::move(ssl)) {
    prepare(socket_.get());
    SSL_set_app_data(ssl_.get(), &identity_);
    if (::SSL_set_fd(ssl_.get(), socket_.get()) != 1)
      throw std::runtime_error(tls_error("SSL_set_fd"));
  }
  int descriptor() const override { return socket_.get(); }

  std::size_t write(const std::byte* data, std::size_t bytes, bool) override {
    if (!shake_hands()) return 0;
    std::size_t taken = 0;
    while (taken < bytes) {
      std::size_t n = 0;
      ::ERR_clear_error();
      const int result = ::SSL_write_ex(ssl_.get(), data + taken, bytes - taken, &n);
      if (result != 1 && would_block(result)) break;
      taken += n;
      renew_key(n);
    }
    return taken;
  }
  std::size_t read(std::byte* into, std::size_t bytes) override {
    if (!shake_hands()) return 0;
    std::size_t n = 0;
    ::ERR_clear_error();
    const int result = ::SSL_read_ex(ssl_.get(), into, bytes, &n);
    if (result == 1) return n;
    would_block(result);
    return 0;
  }
  bool has_pending() const override { return ::SSL_pending(ssl_.get()) > 0; }
  bool waits_for_space(bool) const override { return waits_for_space_; }
  void shut() override {
    if (ready_) ::SSL_shutdown(ssl_.get());
    ::ERR_clear_error();
    ::shutdown(socket_.get(), SHUT_WR);
  }

 private:
  bool shake_hands() {
    if (ready_) return true;
    ::ERR_clear_error();
    const int result = ::SSL_do_handshake(ssl_.get());
    if (result != 1 && would_block(result)) return false;
    // Without a pre-shared key a client would take any server, and the other way round.
    if (result != 1 || ::SSL_session_reused(ssl_.get()) != 1)
      throw std::runtime_error("TLS: the other side does not have the token");
    return ready_ = true;
  }
  // A key protects at most 2^24.5 records of 16 KiB, 360 GiB (RFC 8446, section 5.5). It changes when the socket has
  // space: until the message about it has left, nothing could be read either.
  void renew_key(std::size_t bytes) {
    constexpr std::uint64_t kBytesOfAKey = std::uint64_t{64} << 30;
    if ((under_key_ += bytes) < kBytesOfAKey) return;
    pollfd room{socket_.get(), POLLOUT, 0};
    if (::poll(&room, 1, 0) != 1 || (room.revents & POLLOUT) == 0) return;
    ::ERR_clear_error();
    if (::SSL_key_update(ssl_.get(), SSL_KEY_UPDATE_NOT_REQUESTED) != 1 ||
        ::SSL_do_handshake(ssl_.get()) != 1)
      throw std::runtime_error(tls_error("change of keys"));
    under_key_ = 0;
  }
  // After a failed call: true where it is to be repeated later. Throws where the connection is over.
  bool would_block(int result) {
    const int error = ::SSL_get_error(ssl_.get(), result);
    waits_for_space_ = error == SSL_ERROR_WANT_WRITE;
    if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) return true;
    if (error == SSL_ERROR_ZERO_RETURN) throw std::runtime_error(kClosed);
    throw std::runtime_error(
        tls_error(error == SSL_ERROR_SYSCALL && errno != 0 ? std::strerror(errno) : kClosed));
  }

  os::Descriptor socket_;
  std::string identity_;
  Ssl ssl_;  // destroyed before what it refers to
  bool ready_ = false, waits_for_space_ = false;
  std::uint64_t under_key_ = 0;
};

constexpr std::size_t kKeyBytes = elastic::kMacBytes;
constexpr unsigned char kSuite[] = {0x13, 0x01};  // TLS_AES_128_GCM_SHA256 (RFC 8446, appendix B.4)

SSL_SESSION* make_session(SSL* ssl, const std::string& key) {
  SSL_SESSION* session = ::SSL_SESSION_new();
  const SSL_CIPHER* cipher = ::SSL_CIPHER_find(ssl, kSuite);
  if (session != nullptr && cipher != nullptr &&
      ::SSL_SESSION_set1_master_key(session, reinterpret_cast<const unsigned char*>(key.data()),
                                    key.size()) == 1 &&
      ::SSL_SESSION_set_cipher(session, cipher) == 1 &&
      ::SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1)
    return session;
  ::SSL_SESSION_free(session);
  return nullptr;
}

const Tls& tls_of(SSL* ssl) {
  return *static_cast<const Tls*>(SSL_CTX_get_app_data(::SSL_get_SSL_CTX(ssl)));
}

int present(SSL* ssl, const EVP_MD* digest, const unsigned char** id, std::size_t* size,
            SSL_SESSION** session) {
  *session = nullptr;
  if (digest != nullptr && ::EVP_MD_is_a(digest, "SHA256") != 1) return 1;
  const auto& identity = *static_cast<const std::string*>(SSL_get_app_data(ssl));
  *session = make_session(ssl, tls_of(ssl).key(identity));
  *id = reinterpret_cast<const unsigned char*>(identity.data());
  *size = identity.size();
  return *session != nullptr ? 1 : 0;
}

int find(SSL* ssl, const unsigned char* identity, std::size_t size, SSL_SESSION** session) {
  *session = make_session(
      ssl, tls_of(ssl).key(std::string(reinterpret_cast<const char*>(identity), size)));
  return 1;
}

SSL_CTX* make_context(const SSL_METHOD* method, const Tls& tls) {
  SSL_CTX* context = ::SSL_CTX_new(method);
  TRIREME_CHECK(context != nullptr, "{}", tls_error("SSL_CTX_new"));
  const bool ok = SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) == 1 &&
                  SSL_CTX_set_max_proto_version(context, TLS1_3_VERSION) == 1 &&
                  ::SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256") == 1 &&
                  ::SSL_CTX_set_num_tickets(context, 0) == 1;
  TRIREME_CHECK(ok, "{}", tls_error("options of a context"));
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_app_data(context, const_cast<Tls*>(&tls));
  return context;
}

}  // namespace

std::unique_ptr<Stream> make_plain_stream(os::Descriptor socket) {
  return std::make_unique<PlainStream>(std::move(socket));
}

Tls::Tls(std::string token)
    : extracted_(elastic::hmac(std::string(kKeyBytes, '\0'), token)),
      client_(make_context(::TLS_client_method(), *this)),
      server_(make_context(::TLS_server_method(), *this)) {
  // With an empty store of certificates: only a pre-shared key is accepted.
  ::SSL_CTX_set_verify(client_.get(), SSL_VERIFY_PEER, nullptr);
  ::SSL_CTX_set_psk_use_session_callback(client_.get(), present);
  ::SSL_CTX_set_psk_find_session_callback(server_.get(), find);
}

Tls::~Tls() = default;

std::string Tls::key(const std::string& identity) const {
  return elastic::hmac(extracted_, identity + '\x01');
}

std::unique_ptr<Stream> Tls::client(os::Descriptor socket, std::string identity) const {
  Ssl ssl(::SSL_new(client_.get()));
  TRIREME_CHECK(ssl != nullptr, "{}", tls_error("SSL_new"));
  ::SSL_set_connect_state(ssl.get());
  return std::make_unique<TlsStream>(std::move(socket), std::move(ssl), std::move(identity));
}

std::unique_ptr<Stream> Tls::server(os::Descriptor socket) const {
  Ssl ssl(::SSL_new(server_.get()));
  TRIREME_CHECK(ssl != nullptr, "{}", tls_error("SSL_new"));
  ::SSL_set_accept_state(ssl.get());
  return std::make_unique<TlsStream>(std::move(socket), std::move(ssl));
}

}  // namespace trireme::comm
