// TLS 1.3 of all connections of a run, with an external pre-shared key and ephemeral key exchange; one cipher suite
// (TLS_AES_128_GCM_SHA256), no tickets, no early data, no certificates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

struct ssl_ctx_st;  // of OpenSSL
struct ssl_st;

namespace trireme::elastic {

// The connections that a server accepts: their keys by identity.
using Expected = std::shared_ptr<const std::map<std::string, std::string>>;

// One end of a connection; nothing blocks. Used by one thread at a time. All functions throw std::runtime_error once the
// connection has ended or failed; its text says how.
class TlsEnd {
 public:
  struct Psk {
    std::string identity{}, key{};  // of a client
    Expected expected{};            // of a server
  };
  // `socket`: nonblocking, and open for longer than this; -1: bytes pass through feed() and take().
  TlsEnd(ssl_st* ssl, Psk psk, int socket);

  // Continues the handshake; whether it is done, so that the other side has shown the token.
  bool shake_hands();
  bool ready() const { return ready_; }
  // Number of bytes accepted or received: as many as possible now, which may be 0. The first calls do the handshake.
  std::size_t write(const std::byte* data, std::size_t bytes);
  std::size_t read(std::byte* into, std::size_t bytes);
  // Bytes came that read() has not returned yet.
  bool has_pending() const;
  // A call that returned 0 waits for space in the socket, and else for the other side.
  bool waits_for_space() const { return waits_for_space_; }
  // The other side reads the end after the bytes written so far.
  void shut();

  // Bytes that the other side has sent, and those for it.
  void feed(std::string_view bytes);
  std::string take();

 private:
  void renew_key(std::size_t bytes);
  bool would_block(int result);

  struct Free {
    void operator()(ssl_st* ssl) const;
  };
  std::unique_ptr<Psk> psk_;
  int socket_;
  std::unique_ptr<ssl_st, Free> ssl_;  // destroyed before what it refers to
  bool ready_ = false, waits_for_space_ = false;
  std::uint64_t under_key_ = 0;
};

class Tls {
 public:
  // Throws Error{kInternal} where OpenSSL lacks something.
  explicit Tls(std::string token);

  // Both ends know the connection's name, and a client sends its identity unencrypted: HMAC-SHA256 of the name under the
  // token. A server refuses identities that it does not expect.
  std::unique_ptr<TlsEnd> client(std::string_view name, int socket = -1) const;
  std::unique_ptr<TlsEnd> server(Expected expected, int socket = -1) const;
  Expected expect(const std::vector<std::string>& names) const;

  std::string identity(std::string_view name) const;
  // HKDF-Expand(HKDF-Extract("", token), identity) of 32 bytes with SHA-256 (RFC 5869).
  std::string key(const std::string& identity) const;

 private:
  std::unique_ptr<TlsEnd> end(TlsEnd::Psk psk, bool client, int socket) const;

  std::string token_, extracted_;
  std::shared_ptr<ssl_ctx_st> context_;
};

}  // namespace trireme::elastic
