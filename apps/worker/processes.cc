#include "processes.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <set>

#include "apps/worker/memory/memory.h"
#include "trireme/base/error.h"
#include "trireme/base/host_name.h"
#include "trireme/comm/connect/reduction_server.h"
#include "trireme/comm/local/local_world.h"
#include "trireme/comm/nccl/nccl_world.h"
#include "trireme/comm/net/measure_links.h"
#include "trireme/config/links/links_file.h"
#include "trireme/config/values/nccl_settings.h"
#include "trireme/launch/elastic/ranks.h"
#include "trireme/launch/elastic/secret.h"
#include "trireme/model/blocks/build.h"
#include "trireme/model/layout.h"

namespace trireme::app {

std::string variable(const char* name, const char* missing) {
  const char* value = std::getenv(name);
  return value && *value ? value : missing;
}

namespace {

comm::Route route() {
  const std::string name = variable("TRIREME_TRANSPORT", "best");
  if (name == "best") return comm::Route::kBest;
  if (name == "shm") return comm::Route::kShm;
  if (name == "gloo") return comm::Route::kGloo;
  if (name == "tcp") return comm::Route::kTcp;
  if (name == "tls") return comm::Route::kTls;
  fail(ErrorKind::kUsage, "TRIREME_TRANSPORT={}; needs best, shm, tcp, tls or gloo", name);
}

// From the descriptor that the agent left open.
std::string inherited_token() {
  const int fd = std::atoi(variable(elastic::kTokenVariable, "-1").c_str());
  char bytes[4096];
  const ssize_t got = ::pread(fd, bytes, sizeof bytes, 0);
  if (got <= 0)
    fail(ErrorKind::kUsage, "{}={}: {}; only what an agent starts may have {} set",
         elastic::kTokenVariable, fd, std::strerror(errno), elastic::kStoreVariable);
  return {bytes, static_cast<std::size_t>(got)};
}

// Record in the memory that the agent left open, if any: the agent can read it when this rank cannot report.
void record_where_the_agent_reads(comm::World& world) {
  const std::string fd = variable(elastic::kFlightVariable, "");
  if (fd.empty()) return;
  world.record_in(std::make_shared<watch::Recorder>(std::atoi(fd.c_str())));
  // Where users' processes may look at their descendants alone: what the agent starts may look at this one.
  ::prctl(PR_SET_PTRACER, ::getppid(), 0, 0, 0);
}

// And what carries the groups along each axis, where that differs.
void print_transport(const comm::World& world, const config::Job& job) {
  fmt::print("transport {}\n", world.via());
  const mesh::Mesh mesh = model::mesh_of(job);
  if (mesh.world() != world.size()) return;
  std::set<mesh::AxisSet> seen = {mesh::AxisSet()};
  for (const mesh::AxisSet axes :
       {mesh::AxisSet(mesh::Axis::kTp), mesh::AxisSet(mesh::Axis::kCp), mesh::kShards,
        mesh::AxisSet(mesh::Axis::kDpReplicate), mesh::AxisSet(mesh::Axis::kIsland),
        mesh::kReplicas, mesh::AxisSet(mesh::Axis::kPp)}) {
    if (!seen.insert(mesh.real(axes)).second) continue;
    std::set<std::string_view> ways;
    for (const auto& ranks : mesh.groups(axes)) ways.insert(world.via(ranks));
    if (ways == std::set{world.via(mesh.group(0, mesh::kWorld))}) continue;
    fmt::print("transport of {}: {}\n", mesh::print(mesh.real(axes)), fmt::join(ways, "; or "));
  }
}

// Before the first communicator reads them; rank 0 prints them.
void set_nccl_variables(const config::Job& job) {
  std::string text;
  for (const auto& [name, value] : config::nccl_variables(job.network.nccl)) {
    if (const std::string other = variable(name.c_str(), ""); !other.empty() && other != value)
      fail(ErrorKind::kUsage,
           "network.nccl sets {}={}, but the environment has {}={}; unset the variable, or leave "
           "the setting out",
           name, value, name, other);
    ::setenv(name.c_str(), value.c_str(), 1);
    text += fmt::format(" {}={}", name, value);
  }
  if (text.empty() || variable("RANK", "0") != "0") return;
  fmt::print("nccl     {}\n", text);
  std::fflush(stdout);
}

comm::RendezvousConfig rendezvous(double timeout_s) {
  comm::RendezvousConfig config;
  config.rank = std::atoi(variable("RANK", "0").c_str());
  config.size = std::atoi(variable("WORLD_SIZE", "1").c_str());
  config.host = variable("MASTER_ADDR", "127.0.0.1");
  config.port = std::atoi(variable("MASTER_PORT", "29500").c_str());
  config.agent = variable(elastic::kStoreVariable, "");
  if (!config.agent.empty()) config.agent_token = inherited_token();
  config.generation =
      std::strtoull(variable(elastic::kGenerationVariable, "0").c_str(), nullptr, 10);
  config.host_store = variable("TORCHELASTIC_USE_AGENT_STORE", "False") != "True";
  config.run_id = variable("TORCHELASTIC_RUN_ID", "trireme") + "." +
                  variable("TORCHELASTIC_RESTART_COUNT", "0");
  config.host_name = variable("TRIREME_HOST", "");
  config.link_name = variable("TRIREME_HOST", host_name().c_str());
  config.listens = variable(elastic::kDialOnlyVariable, "") != "1";
  config.relay = variable(elastic::kRelayVariable, "");
  if (!config.relay.empty())
    config.relay_key = elastic::read_token(variable(elastic::kRelayKeyVariable, ""));
  constexpr double kResume = 60;
  if (!config.agent.empty()) config.resume_s = kResume;
  if (const std::string links = variable(elastic::kLinksVariable, ""); !links.empty())
    config.links = config::read_links(links);
  config.interface = variable("GLOO_SOCKET_IFNAME", "");
  config.timeout_s = timeout_s;
  config.servers = std::atoi(variable(elastic::kServersVariable, "0").c_str());
  return config;
}

}  // namespace

algorithm::Links measure_links(double seconds) {
  constexpr double kPatience = 600;
  comm::RendezvousConfig config = rendezvous(kPatience);
  config.connect_timeout_s = kPatience;
  comm::Rendezvous all(config);
  all.watch({});
  return comm::measure_links(all, seconds);
}

void serve_reductions(double rate) {
  comm::RendezvousConfig config = rendezvous(/*timeout_s=*/0);
  config.server_rate = rate;
  comm::serve_reductions(config, route());
}

std::unique_ptr<comm::World> connect_processes(double timeout_s, config::Device device,
                                               const std::function<void(const char*)>& on_stage) {
  comm::RendezvousConfig config = rendezvous(timeout_s);
  config.on_stage = on_stage;
  if (device == config::Device::kCpu) return comm::connect_processes(config, route());
  if (config.servers > 0)
    fail(ErrorKind::kUsage,
         "run.device=cuda with {} reduction servers: GPUs add by NCCL; end `trireme reduce-server`",
         config.servers);
  if (route() != comm::Route::kBest)
    fail(ErrorKind::kUsage,
         "TRIREME_TRANSPORT={} with run.device=cuda: GPUs talk through NCCL; unset it",
         variable("TRIREME_TRANSPORT", ""));
  return comm::connect_nccl(
      {.control = config, .local_rank = std::atoi(variable("LOCAL_RANK", "0").c_str())});
}

void claim_flight_record() {
  const std::string fd = variable(elastic::kFlightVariable, "");
  if (!fd.empty()) watch::claim_area(std::atoi(fd.c_str()));
}

bool is_process_of_a_world() {
  return std::getenv("RANK") != nullptr &&
         (variable("WORLD_SIZE", "1") != "1" || variable(elastic::kServersVariable, "0") != "0");
}

void run_ranks_here(int threads, const config::Job& job,
                    const std::function<void(comm::World&)>& body,
                    const std::function<void(const char*)>& on_stage) {
  set_nccl_variables(job);
  blocks::device_of(job);  // before anything is connected
  const auto rank = [&](comm::World& world) {
    at::set_num_threads(std::max(1, std::atoi(variable("OMP_NUM_THREADS", "1").c_str())));
    body(world);
    // A rank that is gone without this mark has left the others alone.
    world.flight().enter(watch::Phase::kEnd, world.flight().area().step.load());
  };
  const double timeout_s = job.parallel.comm_timeout_s;
  if (!is_process_of_a_world())
    return comm::run_local_ranks(threads, timeout_s, [&](comm::World& world) {
      // One rank alone has all that the process's threads make.
      std::optional<ChargeAnew> charge;
      if (threads > 1) charge.emplace();
      if (threads == 1) record_where_the_agent_reads(world);
      rank(world);
    });
  const std::unique_ptr<comm::World> world = connect_processes(timeout_s, job.run.device, on_stage);
  record_where_the_agent_reads(*world);
  if (world->rank() == 0) {
    print_transport(*world, job);
    std::fflush(stdout);
  }
  try {
    rank(*world);
  } catch (const std::exception& error) {
    world->abort(fmt::format("rank {}: {}", world->rank(), error.what()));
    throw;
  }
}

}  // namespace trireme::app
