// The place of a process among ranks: by flags, else by the variables of a launcher, else alone.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace trireme::runs {

enum class Launcher { kNone, kThreads, kProcesses, kTorchrun, kAgent, kSlurm, kOpenMpi };

struct Place {
  Launcher launcher = Launcher::kNone;
  int rank = 0;  // of this process; 0 where it starts all ranks itself
  int world = 1;
  int local_rank = 0;
  int local_world = 1;
  std::string
      address;  // where rank 0 listens; only of launchers other than our agent, which has a store
  int port = 0;

  // Whether another program started this process as one of several ranks.
  bool launched() const { return launcher >= Launcher::kTorchrun; }
};

// "2 ranks as processes (--nproc)", "rank 1 of 4 (torchrun)".
std::string describe(const Place& place);

// More threads or processes than this on one machine is a slip of the finger.
inline constexpr int kMostLocal = 1024;

// The value of an environment variable, none where it is not set or empty.
using Variables = std::function<std::optional<std::string>(const char* name)>;

// Decides. Flags ask for at most `most` ranks, which may be many where none starts. Throws Error{kUsage} when flags and environment contradict each
// other, or when a variable has a value that cannot be.
Place find_place(const Variables& variables, std::optional<int> ranks, std::optional<int> nproc,
                 int most = kMostLocal);

// The hosts according to the launcher of one agent on each host (Slurm, Open MPI or torchrun); empty without one.
struct Nodes {
  std::optional<int> rank;  // of this host
  std::optional<int> count;
  std::string endpoint;  // where the first can listen
  std::string run_id;
};

// By torchrun's PET_*, Slurm's, Open MPI's with one process a host. Throws Error{kUsage} when a
// variable has a value that cannot be.
Nodes find_nodes(const Variables& variables);

// Entry `node` of Slurm's "2(x3),1"; 0 if there is no such entry.
int slurm_tasks_on_node(const std::string& list, int node);

// The first host of Slurm's "n[01-04,7],m": "n01".
std::string slurm_first_host(const std::string& list);

}  // namespace trireme::runs
