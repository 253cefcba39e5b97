#include "trireme/job/runs/place.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "trireme/base/error.h"
#include "trireme/launch/elastic/ranks.h"

namespace trireme::runs {
namespace {

std::optional<int> whole_number(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(value)
                                                                  : std::nullopt;
}

int number(const Variables& variable, const char* name, int least, int most,
           std::optional<int> missing = {}) {
  const std::optional<std::string> text = variable(name);
  if (!text && missing) return *missing;
  if (!text)
    fail(ErrorKind::kUsage, "the environment variable {} is not set; needs a number from {} to {}",
         name, least, most);
  const std::optional<int> value = whole_number(*text);
  if (!value || *value < least || *value > most)
    fail(ErrorKind::kUsage, "the environment variable {}=\"{}\"; needs a number from {} to {}",
         name, *text, least, most);
  return *value;
}

Place from_variables(const Variables& variable, Launcher launcher, const char* rank,
                     const char* world, const char* local_rank, const char* local_world) {
  constexpr int kMost = 1 << 20;
  Place place;
  place.launcher = launcher;
  place.world = number(variable, world, 1, kMost);
  place.rank = number(variable, rank, 0, place.world - 1);
  place.local_world = number(variable, local_world, 1, place.world, 1);
  place.local_rank = number(variable, local_rank, 0, place.world - 1, 0);
  return place;
}

// Only inside a step. A batch script has SLURM_PROCID too, without being one of several ranks, and so has a shell that
// a step opens on a terminal.
bool is_slurm_step(const Variables& variable) {
  return variable("SLURM_STEP_NUM_TASKS") && variable("SLURM_PROCID") &&
         !variable("SLURM_PTY_PORT") && variable("SLURM_JOB_NAME") != "interactive";
}

// As Lightning derives it.
int slurm_port(const Variables& variable) {
  constexpr int kFirst = 15000;
  return kFirst + number(variable, "SLURM_JOB_ID", 0, 2147483647, 0) % 10000;
}

void find_master(const Variables& variable, Place& place) {
  if (place.world == 1) return;
  place.address = variable("MASTER_ADDR").value_or("");
  if (variable("MASTER_PORT")) place.port = number(variable, "MASTER_PORT", 1, 65535);
  if (place.launcher == Launcher::kSlurm) {
    if (place.address.empty())
      place.address = slurm_first_host(variable("SLURM_STEP_NODELIST").value_or(""));
    if (place.port == 0) place.port = slurm_port(variable);
  }
  if (place.launcher == Launcher::kAgent) return;
  if (place.address.empty() || place.port == 0)
    fail(ErrorKind::kUsage,
         "{}, but MASTER_ADDR and MASTER_PORT are not both set: set them to a host and port where "
         "rank 0 can listen",
         describe(place));
}

Place from_environment(const Variables& variable) {
  Place place;
  if (variable("RANK") || variable("WORLD_SIZE")) {
    place = from_variables(
        variable, variable(elastic::kStoreVariable) ? Launcher::kAgent : Launcher::kTorchrun,
        "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE");
  } else if (is_slurm_step(variable)) {
    place = from_variables(variable, Launcher::kSlurm, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS",
                           "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE");
    const int here = slurm_tasks_on_node(variable("SLURM_STEP_TASKS_PER_NODE").value_or(""),
                                         number(variable, "SLURM_NODEID", 0, 1 << 20, 0));
    if (here > 0) place.local_world = here;
  } else if (variable("OMPI_COMM_WORLD_SIZE")) {
    place =
        from_variables(variable, Launcher::kOpenMpi, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                       "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE");
  }
  return place;
}

Place from_flag(const Variables& variable, const char* flag, Launcher launcher, int count,
                int most) {
  if (count < 1 || count > most) fail(ErrorKind::kUsage, "{} {}; needs 1 to {}", flag, count, most);
  const Place outer = from_environment(variable);
  if (outer.world > 1)
    fail(ErrorKind::kUsage,
         "{} {} asks for ranks of this machine, but this process is already {}; drop {}, or start "
         "it alone",
         flag, count, describe(outer), flag);
  return {.launcher = launcher, .world = count, .local_world = count, .address = {}};
}

}  // namespace

std::string describe(const Place& place) {
  const auto several = [&](const char* what, const char* flag) {
    return place.world == 1 ? "1 rank"
                            : fmt::format("{} ranks as {} ({})", place.world, what, flag);
  };
  const auto one = [&](const char* launcher) {
    return fmt::format("rank {} of {} ({})", place.rank, place.world, launcher);
  };
  switch (place.launcher) {
    case Launcher::kNone: return "1 rank";
    case Launcher::kThreads: return several("threads", "--ranks");
    case Launcher::kProcesses: return several("processes", "--nproc");
    case Launcher::kTorchrun: return one("RANK and WORLD_SIZE");
    case Launcher::kAgent: return one("trireme launch");
    case Launcher::kSlurm: return one("Slurm");
    case Launcher::kOpenMpi: return one("Open MPI");
  }
  return "";
}

Place find_place(const Variables& variable, std::optional<int> ranks, std::optional<int> nproc,
                 int most) {
  if (ranks && nproc)
    fail(ErrorKind::kUsage,
         "--ranks {} (threads) and --nproc {} (processes) exclude each other; give one", *ranks,
         *nproc);
  if (ranks) return from_flag(variable, "--ranks", Launcher::kThreads, *ranks, most);
  if (nproc) return from_flag(variable, "--nproc", Launcher::kProcesses, *nproc, most);
  Place place = from_environment(variable);
  find_master(variable, place);
  return place;
}

Nodes find_nodes(const Variables& variable) {
  constexpr int kMost = 1 << 20;
  Nodes nodes;
  if (is_slurm_step(variable)) {
    nodes.rank = number(variable, "SLURM_NODEID", 0, kMost, 0);
    nodes.count = number(variable, "SLURM_NNODES", 1, kMost, 1);
    nodes.run_id = variable("SLURM_JOB_ID").value_or("");
    const std::string first = slurm_first_host(variable("SLURM_STEP_NODELIST").value_or(""));
    if (*nodes.count > 1 && !first.empty())
      nodes.endpoint = fmt::format("{}:{}", first, slurm_port(variable));
  } else if (variable("OMPI_COMM_WORLD_SIZE")) {
    nodes.rank = number(variable, "OMPI_COMM_WORLD_RANK", 0, kMost);
    nodes.count = number(variable, "OMPI_COMM_WORLD_SIZE", 1, kMost);
  }
  if (variable("PET_NODE_RANK")) nodes.rank = number(variable, "PET_NODE_RANK", 0, kMost);
  if (variable("MASTER_ADDR") && variable("MASTER_PORT"))
    nodes.endpoint =
        fmt::format("{}:{}", *variable("MASTER_ADDR"), number(variable, "MASTER_PORT", 1, 65535));
  nodes.endpoint = variable("PET_RDZV_ENDPOINT").value_or(nodes.endpoint);
  nodes.run_id = variable("PET_RDZV_ID").value_or(nodes.run_id);
  return nodes;
}

int slurm_tasks_on_node(const std::string& list, int node) {
  std::string_view rest = list;
  while (!rest.empty()) {
    const std::string_view item = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), item.size() + 1));
    const std::size_t times = item.find("(x");
    const auto tasks = whole_number(item.substr(0, times));
    const auto repeat = times == std::string_view::npos || item.back() != ')'
                            ? std::optional(1)
                            : whole_number(item.substr(times + 2, item.size() - times - 3));
    if (!tasks || !repeat) return 0;
    if (node < *repeat) return *tasks;
    node -= *repeat;
  }
  return 0;
}

std::string slurm_first_host(const std::string& list) {
  const std::size_t bracket = list.find('['), comma = list.find(',');
  if (bracket == std::string::npos || comma < bracket) return list.substr(0, comma);
  const std::string numbers = list.substr(bracket + 1, list.find(']', bracket) - bracket - 1);
  return list.substr(0, bracket) + numbers.substr(0, numbers.find_first_of("-,"));
}

}  // namespace trireme::runs
