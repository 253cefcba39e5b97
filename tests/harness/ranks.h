// N ranks as N threads of the test, on any back end that allows it.
#pragma once

#include <csignal>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "trireme/base/ports.h"
#include "trireme/comm/connect/processes.h"
#include "trireme/comm/local/local_world.h"

namespace trireme::harness {

enum class Backend { kLocal, kShm, kGloo, kTcp, kTls, kHosts };

inline std::string name(Backend backend) {
  constexpr const char* kNames[] = {"local", "shm", "gloo", "tcp", "tls", "hosts"};
  return kNames[static_cast<int>(backend)];
}

// A lost rank is an error with a name, and no end by a signal.
inline void ignore_sigpipe() { std::signal(SIGPIPE, SIG_IGN); }

// As run_ranks below, with the ranks pretending to be on hosts: so many on the first, the second, ...
inline void run_ranks_on(const std::vector<int>& hosts, double timeout_s,
                         const std::function<void(comm::World&)>& body) {
  ignore_sigpipe();
  std::vector<std::string> host_of;
  for (std::size_t host = 0; host < hosts.size(); ++host)
    host_of.insert(host_of.end(), static_cast<std::size_t>(hosts[host]), std::to_string(host));
  const int size = static_cast<int>(host_of.size()), port = free_port();
  comm::run_ranks(size, body, [&](int rank) {
    return comm::connect_processes({.rank = rank,
                                    .size = size,
                                    .port = port,
                                    .host_name = host_of[rank],
                                    .timeout_s = timeout_s});
  });
}

// Runs body on every rank and joins; rethrows the first error that is not an echo (see
// comm::run_local_ranks). All but local ranks know as little of each other as processes do; kHosts puts
// two on a host, the last of an odd number alone.
inline void run_ranks(Backend backend, int size, double timeout_s,
                      const std::function<void(comm::World&)>& body) {
  if (backend == Backend::kLocal) return comm::run_local_ranks(size, timeout_s, body);
  if (backend == Backend::kHosts) {
    std::vector<int> hosts(static_cast<std::size_t>(size / 2), 2);
    if (size % 2 == 1) hosts.push_back(1);
    return run_ranks_on(hosts, timeout_s, body);
  }
  ignore_sigpipe();
  const std::map<Backend, comm::Route> routes = {{Backend::kShm, comm::Route::kShm},
                                                 {Backend::kGloo, comm::Route::kGloo},
                                                 {Backend::kTcp, comm::Route::kTcp},
                                                 {Backend::kTls, comm::Route::kTls}};
  const int port = free_port();
  comm::run_ranks(size, body, [&](int rank) {
    return comm::connect_processes({.rank = rank,
                                    .size = size,
                                    .port = port,
                                    .agent_token = "a token that no stranger has",
                                    .timeout_s = timeout_s},
                                   routes.at(backend));
  });
}

}  // namespace trireme::harness
