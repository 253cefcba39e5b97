// TCP ports of this host for those that are about to listen.
#pragma once

namespace trireme {

// Whether a program could listen on this port now.
bool can_listen(int port);

// A port that was free a moment ago. If possible, it is outside the range that the kernel gives to connecting sockets.
// Otherwise a client that retries until a server listens could be given the port it tries, and connect to itself.
// Throws Error{kUsage} if no port is free.
int free_port();

}  // namespace trireme
