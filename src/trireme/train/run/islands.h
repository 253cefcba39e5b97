// Islands: a run that is one of several islands, which merge their weights through a leader (launch/islands).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trireme/base/clock.h"
#include "trireme/comm/group.h"
#include "trireme/comm/world.h"
#include "trireme/exec/units/outer_jobs.h"
#include "trireme/launch/islands/island.h"
#include "trireme/launch/islands/source.h"
#include "trireme/train/job_session.h"

namespace trireme::train {

// Which island a run is, and where it finds the others.
struct IslandSetup {
  std::string leader{};  // HOST:PORT; in a replay the directory of a tape
  std::string token{};   // empty: a replay
  int island = 0;
  int islands = 1;  // at most: they share the samples
  // Of a replay: the run on the tape, and the step after which it ends by `stop`.
  std::string run{};
  std::int64_t last = 0;
  std::atomic<int>* stop = nullptr;
  const std::atomic<int>* asked = nullptr;  // nonzero: do not wait for a leader that is away
  std::function<void(const std::string&)> on_note = [](const std::string&) {};
};

class Islands {
 public:
  // Collective over the world. `machine` names what computes. Throws Error{kUsage} for jobs that cannot be islands.
  Islands(const IslandSetup& setup, const config::Job& job, const Path& run,
          const std::string& machine, JobSession& session, comm::World& world);
  ~Islands();

  // The checkpoint to begin with: that of an island that trains, which this one takes, or `own`; empty: none. `dataset`
  // is the digest of the data. Collective, as all that follows.
  Path take_state(const Path& own, const std::string& dataset) const;
  // Before the first step, from the state of the session, which is of that checkpoint: joins, and applies what others
  // merged since.
  void begin(std::int64_t step, const Path& checkpoint);
  // Sends and applies what is due after `step`, which took `seconds`.
  void after_step(std::int64_t step, double seconds);
  void end(std::int64_t step);
  // The newest checkpoint of the run, which islands that join may take.
  void show(const Path& checkpoint);

 private:
  void apply_ready(std::int64_t when, bool at_once);
  void apply(const islands::Entry& entry, std::int64_t index, const islands::Island::Step& how);
  void send(int fragment, std::int64_t step);
  // Until the fragment is not on its way, or the run is asked to stop.
  void await(int fragment, std::int64_t step);
  // Waits for a further entry. Returns false once any rank is asked to stop and has waited for a while.
  bool wait(const Stopwatch& waited);
  void keep();
  std::int64_t agreed(std::int64_t entries);
  islands::Recipe recipe_of() const;
  std::string why_not(const islands::State& state, const std::string& dataset) const;

  const config::Job& job_;
  JobSession& session_;
  exec::Units& units_;
  exec::OuterJobs outer_jobs_;
  comm::World& world_;
  const plan::OuterSteps outer_;
  IslandSetup setup_;
  std::string machine_;
  std::unique_ptr<comm::Group> all_;  // of several ranks
  std::vector<exec::OuterPart> parts_;
  std::vector<islands::Part> sent_parts_;  // as the recipe numbers units
  islands::Recipe recipe_;
  std::unique_ptr<islands::Source> source_;
  std::optional<islands::Island> island_;
  std::string run_;
  Path run_directory_;
  Path shown_;              // of checkpoints, the last one
  double seconds_ = 0;      // of the steps since something was sent
  std::int64_t steps_ = 0;  // and their number
  bool stopped_ = false;    // waits no more
  bool noted_ = false;      // that it waits
};

}  // namespace trireme::train
