// trireme relay: joins hosts that can only dial out; and what commands on such hosts need to know of it.
#pragma once

#include <string>
#include <vector>

namespace trireme::app {

struct RelayOptions {
  std::string listen, key_file;
};
int relay(const RelayOptions& options);

// Of a host that takes part in a run.
struct RelayUse {
  std::string relay, key_file;
  bool dial_only = false;
};
// Adds what ranks read in their environment. Throws Error{kUsage}.
void add_relay_variables(const RelayUse& use, std::vector<std::string>& variables);

}  // namespace trireme::app
