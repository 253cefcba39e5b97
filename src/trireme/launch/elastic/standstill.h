// Standstill: what an agent says about its host when nothing has moved there for long, whatever the reason.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trireme/launch/elastic/lookout.h"

namespace trireme::elastic {

// Pure: no clock, no I/O.
class Standstill {
 public:
  Standstill(double patience_s, double now) : patience_s_(patience_s), since_(now), seen_(now) {}

  // `sign` differs whenever there was progress. Once for each standstill: its seconds. A standstill that ended by
  // itself is normal: from then on only one of twice its length counts. If look() was not called for longer than a
  // second, the host slept.
  std::optional<double> look(std::uint64_t sign, double now);

 private:
  double patience_s_;
  double since_, seen_;
  std::uint64_t sign_ = 0;
  bool reported_ = false;
};

// State of a host, as its agent sees it.
struct HostView {
  std::string name{};
  std::uint64_t generation = 0;  // the newest that has begun here
  std::vector<Watched> ranks{};  // that have not ended
  double slept_s = 0;    // the longest time for which the agent did nothing in this generation
  std::string leader{};  // of the run, and what is wrong with the connection to it
};

// Changes with everything that a rank or the agent does.
std::uint64_t sign_of(const HostView& host);
// One line for people, and a line for each process.
std::string summary(const HostView& host, double seconds);
std::vector<std::string> describe(const HostView& host);

}  // namespace trireme::elastic
