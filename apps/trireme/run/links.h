// trireme links: measures the links between hosts.
#pragma once

#include <optional>
#include <string>

#include "relay.h"

namespace trireme::app {

struct LinksOptions {
  int hosts = 2;
  std::string endpoint;
  std::string id;
  std::string token_file;
  std::optional<int> node_rank;
  std::string out = "links.yaml";
  double seconds = 2;
  double join_timeout_s = 600;
  RelayUse relay;
};
int links(const LinksOptions& options);

}  // namespace trireme::app
