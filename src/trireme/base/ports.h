// TCP ports of this host for those that are about to listen.
#pragma once

namespace trireme {

// Whether a program could listen on this port now.
bool can_listen(int port);

// A port that was free a moment ago. Not one that the kernel gives to those who connect, where there are others: a client
// that tries until somebody listens could be given the very port it tries, and would meet itself. Throws Error{kUsage}
// if there is none.
int free_port();

}  // namespace trireme
