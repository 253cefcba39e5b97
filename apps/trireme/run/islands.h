// trireme islands and trireme replay.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/trireme/commands.h"

namespace trireme::app {

struct IslandsOptions {
  std::string listen;
  std::string token_file;
  std::string directory = "islands";
  std::vector<std::string> from;  // copies that islands keep
  int quorum = 0;
  std::optional<double> grace_s;
  double absent_s = 60;
};
int lead_islands(const IslandsOptions& options);

struct ReplayOptions {
  std::string tape;
  std::string out;
  bool merges = false;
};
int replay(const ReplayOptions& options);

// Throws Error{kUsage} for a run's options that do not make an island of it.
void check_island(const IslandOptions& options, const config::Job& job);

}  // namespace trireme::app
