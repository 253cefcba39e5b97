#include "trireme/launch/elastic/tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/launch/elastic/secret.h"

namespace trireme::elastic {
namespace {

constexpr const char* kTlsEnded = "connection closed by the other side";
constexpr unsigned char kTlsSuite[] = {0x13, 0x01};  // TLS_AES_128_GCM_SHA256 (RFC 8446, B.4)

// The oldest error of this thread's queue, which is empty afterwards.
std::string tls_error(const char* otherwise) {
  const unsigned long code = ::ERR_get_error();
  ::ERR_clear_error();
  const char* reason = code == 0 ? nullptr : ::ERR_reason_error_string(code);
  return reason != nullptr ? reason : otherwise;
}

const TlsEnd::Psk& psk_of(SSL* ssl) {
  return *static_cast<const TlsEnd::Psk*>(SSL_get_app_data(ssl));
}

SSL_SESSION* session_with(SSL* ssl, const std::string& key) {
  SSL_SESSION* session = ::SSL_SESSION_new();
  const SSL_CIPHER* cipher = ::SSL_CIPHER_find(ssl, kTlsSuite);
  if (session != nullptr && cipher != nullptr &&
      ::SSL_SESSION_set1_master_key(session, reinterpret_cast<const unsigned char*>(key.data()),
                                    key.size()) == 1 &&
      ::SSL_SESSION_set_cipher(session, cipher) == 1 &&
      ::SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1)
    return session;
  ::SSL_SESSION_free(session);
  return nullptr;
}

int present_psk(SSL* ssl, const EVP_MD* digest, const unsigned char** id, std::size_t* size,
                SSL_SESSION** session) {
  *session = nullptr;
  if (digest != nullptr && ::EVP_MD_is_a(digest, "SHA256") != 1) return 1;
  const TlsEnd::Psk& psk = psk_of(ssl);
  *session = session_with(ssl, psk.key);
  *id = reinterpret_cast<const unsigned char*>(psk.identity.data());
  *size = psk.identity.size();
  return *session != nullptr ? 1 : 0;
}

// Without a session a server has nothing to show, since it has no certificate either.
int find_psk(SSL* ssl, const unsigned char* identity, std::size_t size, SSL_SESSION** session) {
  const TlsEnd::Psk& psk = psk_of(ssl);
  const auto found = psk.expected->find(std::string(reinterpret_cast<const char*>(identity), size));
  *session = found == psk.expected->end() ? nullptr : session_with(ssl, found->second);
  return 1;
}

std::shared_ptr<ssl_ctx_st> tls_context() {
  const std::shared_ptr<ssl_ctx_st> context(::SSL_CTX_new(::TLS_method()), &::SSL_CTX_free);
  TRIREME_CHECK(context != nullptr, "TLS: {}", tls_error("SSL_CTX_new"));
  const bool ok = SSL_CTX_set_min_proto_version(context.get(), TLS1_3_VERSION) == 1 &&
                  SSL_CTX_set_max_proto_version(context.get(), TLS1_3_VERSION) == 1 &&
                  ::SSL_CTX_set_ciphersuites(context.get(), "TLS_AES_128_GCM_SHA256") == 1 &&
                  ::SSL_CTX_set_num_tickets(context.get(), 0) == 1;
  TRIREME_CHECK(ok, "TLS: {}", tls_error("options of a context"));
  SSL_CTX_set_mode(context.get(),
                   SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  ::SSL_CTX_set_psk_use_session_callback(context.get(), present_psk);
  ::SSL_CTX_set_psk_find_session_callback(context.get(), find_psk);
  return context;
}

}  // namespace

void TlsEnd::Free::operator()(ssl_st* ssl) const { ::SSL_free(ssl); }

TlsEnd::TlsEnd(ssl_st* ssl, Psk psk, int socket)
    : psk_(std::make_unique<Psk>(std::move(psk))), socket_(socket), ssl_(ssl) {
  SSL_set_app_data(ssl, psk_.get());
  if (socket >= 0 && ::SSL_set_fd(ssl, socket) != 1)
    throw std::runtime_error("TLS: " + tls_error("SSL_set_fd"));
  if (socket < 0) ::SSL_set_bio(ssl, ::BIO_new(::BIO_s_mem()), ::BIO_new(::BIO_s_mem()));
}

bool TlsEnd::shake_hands() {
  if (ready_) return true;
  ::ERR_clear_error();
  const int result = ::SSL_do_handshake(ssl_.get());
  if (result != 1) {
    const int error = ::SSL_get_error(ssl_.get(), result);
    waits_for_space_ = error == SSL_ERROR_WANT_WRITE;
    if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) return false;
  }
  // Without a pre-shared key a client would take any server, and the other way round.
  if (result != 1 || ::SSL_session_reused(ssl_.get()) != 1)
    throw std::runtime_error("TLS: the other side does not have the token (" +
                             tls_error("it ended the handshake") + ")");
  return ready_ = true;
}

std::size_t TlsEnd::write(const std::byte* data, std::size_t bytes) {
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

std::size_t TlsEnd::read(std::byte* into, std::size_t bytes) {
  if (!shake_hands()) return 0;
  std::size_t n = 0;
  ::ERR_clear_error();
  const int result = ::SSL_read_ex(ssl_.get(), into, bytes, &n);
  if (result == 1) return n;
  would_block(result);
  return 0;
}

bool TlsEnd::has_pending() const { return ::SSL_pending(ssl_.get()) > 0; }

void TlsEnd::shut() {
  if (ready_) ::SSL_shutdown(ssl_.get());
  ::ERR_clear_error();
}

void TlsEnd::feed(std::string_view bytes) {
  const int size = static_cast<int>(bytes.size());
  const int taken = size == 0 ? 0 : ::BIO_write(::SSL_get_rbio(ssl_.get()), bytes.data(), size);
  TRIREME_CHECK(taken == size, "memory for {} bytes of TLS", size);
}

std::string TlsEnd::take() {
  BIO* const out = ::SSL_get_wbio(ssl_.get());
  std::string bytes(::BIO_ctrl_pending(out), '\0');
  if (!bytes.empty()) ::BIO_read(out, bytes.data(), static_cast<int>(bytes.size()));
  return bytes;
}

// A key protects at most 2^24.5 records of 16 KiB, 360 GiB (RFC 8446, section 5.5). It changes when the socket has
// space: until the message about it has left, nothing could be read either.
void TlsEnd::renew_key(std::size_t bytes) {
  constexpr std::uint64_t kBytesOfAKey = std::uint64_t{64} << 30;
  if ((under_key_ += bytes) < kBytesOfAKey) return;
  pollfd room{socket_, POLLOUT, 0};
  if (socket_ >= 0 && (::poll(&room, 1, 0) != 1 || (room.revents & POLLOUT) == 0)) return;
  ::ERR_clear_error();
  if (::SSL_key_update(ssl_.get(), SSL_KEY_UPDATE_NOT_REQUESTED) != 1 ||
      ::SSL_do_handshake(ssl_.get()) != 1)
    throw std::runtime_error("TLS: " + tls_error("change of keys"));
  under_key_ = 0;
}

// After a failed call: true where it is to be repeated later. Throws where the connection is over.
bool TlsEnd::would_block(int result) {
  const int error = ::SSL_get_error(ssl_.get(), result);
  waits_for_space_ = error == SSL_ERROR_WANT_WRITE;
  if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) return true;
  if (error == SSL_ERROR_ZERO_RETURN) throw std::runtime_error(kTlsEnded);
  throw std::runtime_error("TLS: " + tls_error(error == SSL_ERROR_SYSCALL && errno != 0
                                                   ? std::strerror(errno)
                                                   : kTlsEnded));
}

Tls::Tls(std::string token)
    : token_(std::move(token)),
      extracted_(hmac(std::string(kMacBytes, '\0'), token_)),
      context_(tls_context()) {}

std::string Tls::identity(std::string_view name) const { return hmac(token_, name); }

std::string Tls::key(const std::string& identity) const {
  return hmac(extracted_, identity + '\x01');
}

Expected Tls::expect(const std::vector<std::string>& names) const {
  std::map<std::string, std::string> keys;
  for (const std::string& name : names) {
    const std::string presented = identity(name);
    keys[presented] = key(presented);
  }
  return std::make_shared<const std::map<std::string, std::string>>(std::move(keys));
}

std::unique_ptr<TlsEnd> Tls::end(TlsEnd::Psk psk, bool client, int socket) const {
  SSL* const ssl = ::SSL_new(context_.get());
  TRIREME_CHECK(ssl != nullptr, "TLS: {}", tls_error("SSL_new"));
  // With an empty store of certificates, a client accepts a pre-shared key alone.
  ::SSL_set_verify(ssl, client ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, nullptr);
  client ? ::SSL_set_connect_state(ssl) : ::SSL_set_accept_state(ssl);
  return std::make_unique<TlsEnd>(ssl, std::move(psk), socket);
}

std::unique_ptr<TlsEnd> Tls::client(std::string_view name, int socket) const {
  const std::string presented = identity(name);
  return end({.identity = presented, .key = key(presented)}, true, socket);
}

std::unique_ptr<TlsEnd> Tls::server(Expected expected, int socket) const {
  return end({.expected = std::move(expected)}, false, socket);
}

}  // namespace trireme::elastic
