// InMemory: a run's snapshots in the memory of its hosts, and what of them is there when ranks start again.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trireme/checkpoint/parcels.h"
#include "trireme/checkpoint/saver.h"

namespace trireme::checkpoint {

// One rank's view. Every call but setup() is collective.
class InMemory {
 public:
  // ROOT is a directory that ranks of a host share and others do not. Each host keeps its own snapshot and that of the
  // host `distance` places before it, in a circle; if that is itself, the one before. Throws Error{kUsage} if a rank
  // has no ROOT.
  InMemory(Path root, std::int64_t distance, comm::World& world, os::FileSystem& files);

  // Settings of a Saver that writes there.
  Saver::Setup setup() const;

  // The newest complete snapshot of more than `after` steps. Its directory then holds all bytes that this host's ranks
  // need, verified as they were written. The present ranks may differ from those that wrote it.
  struct Found {
    Path directory{};  // empty: none
    std::int64_t step = 0;
    std::vector<std::string> refused{};  // why not newer ones, a line each
  };
  Found find(std::int64_t after, const exec::Units& units,
             const std::vector<model::UnitSpec>& specs);

  // Takes away all but that of this step, and returns once no host has more. Throws Error{kData}.
  void keep_only(std::int64_t step);

 private:
  struct Candidate {
    std::int64_t step = 0;
    std::string digest{};      // of its manifest
    std::vector<int> ranks{};  // the first of each host that has it
  };
  struct Inventory {
    std::vector<std::set<std::string>> have{}, need{};  // by host
    std::vector<std::string> damage{};
  };
  std::vector<Candidate> candidates(std::int64_t after);
  std::string gather(const Candidate& candidate, const exec::Units& units,
                     const std::vector<model::UnitSpec>& specs);
  Inventory take_stock(const Candidate& candidate, const formats::Manifest& manifest,
                       const exec::Units& units, const std::vector<model::UnitSpec>& specs);
  std::vector<Parcel> missing(const Inventory& stock, const formats::Manifest& manifest) const;
  void fetch(const Candidate& candidate, const std::string& manifest,
             const std::vector<Parcel>& parcels);
  std::size_t host() const { return host_of_[world_.rank()]; }
  bool leads() const { return ranks_[host()].front() == world_.rank(); }
  Path directory(std::int64_t step) const;

  Path root_;
  comm::World& world_;
  os::FileSystem& files_;
  std::vector<std::size_t> host_of_;     // by rank
  std::vector<std::vector<int>> ranks_;  // by host
  std::size_t distance_ = 0;             // 0: nowhere to
  Parcels parcels_;
};

}  // namespace trireme::checkpoint
