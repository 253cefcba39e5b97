// Checks of addresses and signals before LibTorch uses sockets, because it prints when it fails.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace trireme::comm {

// As LibTorch takes its timeouts.
inline std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

// Gloo and OpenSSL write to sockets whose other end may be gone. Throws Error{kInternal} where that would end the process.
void check_sigpipe();

// The address of this machine that reaches host:port: where its own name points to is often only the
// loopback. Throws std::runtime_error.
std::string address_towards(const std::string& host, int port);

// Empty if this process could listen on the port (of any address), else why not.
std::string why_not_listen(int port);

// Blocks until something listens on host:port, at most `seconds`. Empty, or why nothing does.
std::string await_listener(const std::string& host, int port, double seconds);

}  // namespace trireme::comm
