// Lookout: an agent's eye on the ranks of its host, and the leader's on what agents have seen.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "trireme/base/os/stack.h"
#include "trireme/launch/elastic/messages.h"
#include "trireme/launch/elastic/stack_reader.h"
#include "trireme/launch/watch/area.h"
#include "trireme/launch/watch/silence.h"
#include "trireme/launch/watch/verdict.h"

namespace trireme::elastic {

// A rank's process and what it leaves for others to read.
struct Watched {
  int rank = 0;
  int process = 0;
  std::shared_ptr<const watch::Area> area{};
};

class Lookout {
 public:
  // `stacks` outlives it; `process_state` is os::process_state, or its replacement.
  Lookout(const watch::Patience& patience, StackReader& stacks, double now,
          std::function<char(int process)> process_state = os::process_state)
      : patience_(patience),
        silences_(patience, now),
        process_state_(std::move(process_state)),
        stacks_(stacks) {}

  // Returns the silent ranks of the host, and once their last actions and stacks. Nothing if the same was reported less
  // than half a second ago. A state that was reported in full less than two seconds ago is not repeated.
  std::optional<Silence> look(std::uint64_t generation, const std::vector<Watched>& ranks,
                              double now);

 private:
  watch::Patience patience_;
  watch::Silences silences_;
  std::function<char(int process)> process_state_;
  std::uint64_t generation_ = 0;
  // Details of a silent rank; nothing while they are being made.
  std::optional<std::string> details(const Watched& rank, const watch::State& state, double now);
  StackReader& stacks_;
  std::set<int> detailed_;    // ranks whose details have been reported
  std::size_t reported_ = 0;  // silent ranks
  double reported_at_ = -1e9;
  void leave_out_what_is_known(Silence& silence, double now);
  std::map<int, std::pair<watch::State, double>> in_full_;  // of a silent rank, and when
};

// Reports of all hosts, merged.
class Hangs {
 public:
  struct Found {
    watch::Hang hang;
    bool fresh = false;     // it was not reported before
    double reported_s = 0;  // how long it has lasted since
    std::vector<std::string>
        lines{};  // of a fresh one: every rank, then what each has done and where it is
  };

  void heard(const Silence& silence, double now);
  // Looks at a generation of `world` ranks.
  std::optional<Found> look(std::uint64_t generation, int world, double now);

 private:
  struct Entry {
    watch::Silent silent;
    std::string details;
    double heard_at = 0;
  };
  std::uint64_t generation_ = 0;
  std::map<int, Entry> ranks_;
  std::map<HostId, std::vector<int>> of_host_;
  std::vector<int> reported_;    // the ranks of the reported hang
  double reported_seconds_ = 0;  // for which the first of them had been silent then
  int reports_ = 0;              // of this generation
};

}  // namespace trireme::elastic
