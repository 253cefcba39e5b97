// trireme reduce-server: a host that adds gradients of the others.
#pragma once

#include <string>

namespace trireme::app {

struct ReduceServerOptions {
  std::string endpoint;
  std::string id;
  std::string token_file;
  std::string rate = "1Gb/s";
  double join_timeout_s = 600;
};
int reduce_server(const ReduceServerOptions& options);

}  // namespace trireme::app
