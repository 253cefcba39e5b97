// Stream: the bytes of one TCP connection, in the clear or under TLS; nothing blocks.
#pragma once

#include <openssl/ssl.h>

#include <cstddef>
#include <memory>
#include <string>

#include "trireme/base/os/descriptor.h"

namespace trireme::comm {

// Used by one thread at a time. All functions throw std::runtime_error once the connection has ended or failed; its
// text says how.
class Stream {
 public:
  virtual ~Stream() = default;
  virtual int descriptor() const = 0;
  // Number of bytes accepted or received: as many as possible now, which may be 0. `more`: further bytes follow at
  // once, so a small packet need not leave alone.
  virtual std::size_t write(const std::byte* data, std::size_t bytes, bool more = false) = 0;
  virtual std::size_t read(std::byte* into, std::size_t bytes) = 0;
  // Bytes were read from the socket that the caller has not read yet: the socket does not become readable for them.
  virtual bool has_pending() const { return false; }
  // Whether a write (or else a read) that returned 0 waits for space in the socket.
  virtual bool waits_for_space(bool writing) const { return writing; }
  // The other side reads the end after the bytes written so far.
  virtual void shut() = 0;
};

// Takes over a connected socket, which becomes nonblocking and sends small packets at once.
std::unique_ptr<Stream> make_plain_stream(os::Descriptor socket);

// TLS 1.3 with an external pre-shared key and ephemeral key exchange; one cipher suite (TLS_AES_128_GCM_SHA256), no
// tickets, no early data, no certificates. A server knows the key of each identity that it expects.
class Tls {
 public:
  // `token`: at least 16 bytes. Throws Error{kInternal} where OpenSSL lacks something.
  explicit Tls(std::string token);
  ~Tls();
  Tls(const Tls&) = delete;
  Tls& operator=(const Tls&) = delete;

  // A stream whose first calls of read() and write() do the handshake. `identity` names the connection and is sent
  // unencrypted; both sides derive the connection's key from it.
  std::unique_ptr<Stream> client(os::Descriptor socket, std::string identity) const;
  std::unique_ptr<Stream> server(os::Descriptor socket) const;

  // HKDF-Expand(HKDF-Extract("", token), identity) of 32 bytes with SHA-256 (RFC 5869).
  std::string key(const std::string& identity) const;

 private:
  struct Free {
    void operator()(SSL_CTX* context) const { ::SSL_CTX_free(context); }
  };
  std::string extracted_;
  std::unique_ptr<SSL_CTX, Free> client_, server_;
};

}  // namespace trireme::comm
