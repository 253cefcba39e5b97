// Fork server: a process that has loaded its program and starts others as copies of itself, so that they need not load it.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace trireme::os {

// What a copy begins with.
struct Copy {
  std::vector<std::string> command;
  std::vector<std::string> environment;  // "KEY=VALUE", all of it
};

// In the server, which has one thread (else Error{kUsage}): answers requests on `socket`. Returns in each copy, which is a child of the
// server's parent (a subreaper), what that is to be; nothing in the server, when the other end is gone.
std::optional<Copy> serve_forks(int socket);

// Whether the server at the other end of `socket` has come as far as serve_forks.
bool is_ready(int socket);

// What a copy is to have beside its command: descriptors of the caller under numbers of the copy's.
struct Handed {
  int from = -1, to = -1;
};

// Asks the server at the other end of `socket` for a copy, and waits up to `patience_s`. Returns its process; nothing
// where the server is gone or does not answer: then no copy of this request will ever run.
std::optional<int> request_copy(int socket, const Copy& copy, const std::vector<Handed>& handed,
                                double patience_s);

}  // namespace trireme::os
