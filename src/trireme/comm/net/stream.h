// Stream: the bytes of one TCP connection, in the clear or under TLS; nothing blocks.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include "trireme/base/os/descriptor.h"
#include "trireme/launch/elastic/tls.h"

namespace trireme::comm {

using elastic::Tls;

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
  // Whether write() would take bytes once the socket has space; else it waits for the other side.
  virtual bool accepts() const { return true; }
  // Bytes that write() has taken and the other side's kernel has not.
  virtual std::size_t backlog() const;
  // Sends what write() has taken and the stream still keeps; whether all has left that can leave now.
  virtual bool flush() { return true; }
  // The other side reads the end after the bytes written so far.
  virtual void shut() = 0;
};

// Takes over a connected socket, which becomes nonblocking and sends small packets at once.
std::unique_ptr<Stream> make_plain_stream(os::Descriptor socket);

// Streams under TLS, whose first calls of read() and write() do the handshake. Both ends know the connection's name.
std::unique_ptr<Stream> make_tls_client(const Tls& tls, os::Descriptor socket,
                                        std::string_view name);
std::unique_ptr<Stream> make_tls_server(const Tls& tls, os::Descriptor socket,
                                        const elastic::Expected& expected);

}  // namespace trireme::comm
