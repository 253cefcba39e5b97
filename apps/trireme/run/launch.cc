// trireme launch: an agent that keeps the ranks of this host at work, and leads those of all hosts where it owns the
// endpoint. Each rank is `trireme train` with its place in the environment, so that every generation looks for
// the newest checkpoint by itself.
#include "trireme/launch/elastic/launch.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>

#include "apps/guard.h"
#include "apps/run_record.h"
#include "apps/trireme/commands.h"
#include "apps/trireme/environment.h"
#include "apps/trireme/summary.h"
#include "apps/trireme/workers.h"
#include "before_training.h"
#include "child_runs.h"
#include "host_memory.h"
#include "trireme/base/error.h"
#include "trireme/base/host_name.h"
#include "trireme/config/links/links_file.h"
#include "trireme/launch/elastic/agent.h"
#include "trireme/launch/elastic/secret.h"
#include "trireme/plan/mesh/mesh.h"

namespace trireme::app {
namespace {

namespace fs = std::filesystem;

struct Range {
  std::size_t least = 1, most = 1;
};

Range parse_range(const std::string& text) {
  const auto number = [&](std::string_view part) {
    std::size_t value = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
    if (error != std::errc() || end != part.data() + part.size() || value < 1)
      fail(ErrorKind::kUsage, "--nnodes {}; needs N or MIN:MAX, at least 1", text);
    return value;
  };
  const std::size_t colon = text.find(':');
  const std::string_view all = text;
  Range range{number(all.substr(0, colon)), 0};
  range.most = colon == std::string::npos ? range.least : number(all.substr(colon + 1));
  if (range.most > mesh::Mesh::kMaxWorld)
    fail(ErrorKind::kUsage, "--nnodes {}; needs at most {}", text, mesh::Mesh::kMaxWorld);
  if (range.most < range.least)
    fail(ErrorKind::kUsage, "--nnodes {}: the most is less than the least", text);
  return range;
}

// Which worlds the job can have: each is planned and proven once.
class Worlds {
 public:
  explicit Worlds(const TrainOptions& options) : job_(job_to_train(options)) {}

  // Throws Error for what is wrong with the job in any world.
  bool fit(std::uint64_t world) {
    const auto known = fit_.find(world);
    if (known != fit_.end()) return known->second;
    bool fits = true;
    try {
      check(world);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kUsage && error.kind() != ErrorKind::kOutOfMemory) throw;
      fits = false;
    }
    return fit_[world] = fits;
  }
  // Throws Error for what is wrong with it in this one.
  void check(std::uint64_t world) const {
    check_early(job_,
                {.launcher = Launcher::kAgent, .world = static_cast<int>(world), .address = {}});
  }
  const config::Job& job() const { return job_; }

 private:
  config::Job job_;
  std::map<std::uint64_t, bool> fit_;
};

// Reports a mistake in the job before anything is started.
void check_some_world_fits(Worlds& worlds, std::uint64_t ranks, const Range& nodes) {
  for (std::size_t count = nodes.most; count >= nodes.least; --count)
    if (worlds.fit(count * ranks)) return;
  worlds.check(nodes.most * ranks);
}

std::uint64_t last_generation(const Path& run) {
  std::uint64_t generation = 0;
  std::ifstream(run / kGenerationName) >> generation;
  return generation;
}

// The command of every rank: as given, but that all generations share one run directory.
std::vector<std::string> rank_command(const LaunchOptions& options, const Path& run) {
  std::vector<std::string> words = {fs::read_symlink("/proc/self/exe").string()};
  words.insert(words.end(), options.command.begin(), options.command.end());
  if (options.train.out.empty()) words.insert(words.end(), {"--out", run.string()});
  return words;
}

elastic::Progress progress_with(const HostMemory* memory, const Path& run) {
  elastic::Progress progress = progress_of(run);
  if (memory != nullptr) progress.memory_step = newest_step(memory->path());
  return progress;
}

// Whether the run's last checkpoint is there. Where a directory has its name every byte is read: a damaged one does not
// count, and its steps are trained again.
bool is_complete(const Path& run, std::int64_t last_step) {
  if (newest_step(run / "checkpoints") < last_step) return false;
  try {
    return has_ended(run, last_step);
  } catch (const Error&) {
    return false;
  }
}

class Launched {
 public:
  explicit Launched(const LaunchOptions& options)
      : options_(options),
        worlds_(std::make_shared<Worlds>(options.train)),
        last_step_(worlds_->job().run.steps),
        around_(find_nodes()),
        nodes_(parse_range(!options.nodes.empty() ? options.nodes
                           : around_.count        ? std::to_string(*around_.count)
                                                  : "1")),
        run_(options.train.out.empty() ? fresh_run(job_name(options.train.job))
                                       : Path(options.train.out)) {
    const std::string endpoint = options.endpoint.empty() ? around_.endpoint : options.endpoint;
    if (endpoint.empty() && nodes_.most > 1)
      fail(ErrorKind::kUsage,
           "--nnodes {}: several hosts need --rdzv-endpoint HOST:PORT, where one of them listens",
           options.nodes);
    endpoint_ = endpoint.empty() ? os::Address{.host = elastic::fresh_name(), .local = true}
                                 : os::parse_address(endpoint).value_or(os::Address{});
    if (endpoint_.host.empty())
      fail(ErrorKind::kUsage, "--rdzv-endpoint {}; needs HOST:PORT", endpoint);
    if (!endpoint_.local && options.token_file.empty())
      fail(ErrorKind::kUsage,
           "--rdzv-endpoint {}: any process that reaches that port could join; give --token-file "
           "FILE, the same on every host (head -c 32 /dev/urandom | base64 > FILE; chmod 600 FILE)",
           endpoint);
    if (options.id.size() > kLongestId)
      fail(ErrorKind::kUsage, "--rdzv-id of {} characters; needs at most {}", options.id.size(),
           kLongestId);
    if (options.train.resume != "auto" && options.max_restarts > 0)
      fail(ErrorKind::kUsage,
           "--resume {}: restarted ranks continue from the newest checkpoint of --out; leave it "
           "out, or give --max-restarts 0",
           options.train.resume);
    if (!options.links.empty()) config::read_links(options.links);
    token_ = options.token_file.empty() ? elastic::random_bytes(32)
                                        : elastic::read_token(options.token_file);
  }

  int keep_at_work() {
    check_some_world_fits(*worlds_, static_cast<std::uint64_t>(options_.ranks), nodes_);
    if (is_complete(run_, last_step_)) {
      fmt::print(
          "{} is at step {} of {}: nothing is left to do. To continue, give --steps N with a "
          "later step; the learning rate follows optim.decay_steps\n",
          run_.string(), newest_step(run_ / "checkpoints"), last_step_);
      return 0;
    }
    worker_program();
    check_limits(options_.ranks, 1);
    HostMemory::remove_left();
    if (worlds_->job().checkpoint.memory_every > 0) memory_ = std::make_shared<HostMemory>();
    std::fflush(nullptr);
    return report_outcome(agent()->run(), run_);
  }

 private:
  // Leads on the first host; if that is not known, the host that can listen on the endpoint leads.
  std::unique_ptr<elastic::Agent> agent() const {
    const std::optional<int> rank = options_.node_rank ? options_.node_rank : around_.rank;
    if (rank && *rank != 0) return std::make_unique<elastic::Agent>(config(false));
    try {
      return std::make_unique<elastic::Agent>(config(true));
    } catch (const Error& error) {
      if (rank || endpoint_.local || error.kind() != ErrorKind::kUsage) throw;
      return std::make_unique<elastic::Agent>(config(false));
    }
  }

  std::vector<std::string> rank_variables() const {
    std::vector<std::string> variables = worker_variables();
    const std::string name = elastic::kMemoryVariable + std::string("=");
    std::erase_if(variables, [&](const std::string& entry) { return entry.starts_with(name); });
    if (!options_.links.empty())
      variables.push_back(
          fmt::format("{}={}", elastic::kLinksVariable, fs::absolute(options_.links).string()));
    add_relay_variables(options_.relay, variables);
    if (memory_) variables.push_back(name + memory_->path().string());
    return variables;
  }

  elastic::AgentConfig config(bool leads) const {
    const std::optional<int> rank = options_.node_rank ? options_.node_rank : around_.rank;
    const std::string id = !options_.id.empty()      ? options_.id
                           : !around_.run_id.empty() ? around_.run_id
                                                     : "trireme";
    elastic::AgentConfig config;
    config.member.self.name = host_name();
    config.member.self.run_id = id;
    config.member.self.place = static_cast<std::uint64_t>(rank.value_or(0));
    config.member.patience_s = options_.join_timeout_s;
    constexpr double kLease = 5.0 / 6;  // of the leader's patience: ranks end before it gives up
    config.member.lease_s = kLease * options_.lost_after_s;
    config.member.complete = [run = run_, last = last_step_] { return is_complete(run, last); };
    config.endpoint = endpoint_;
    config.ranks.command = rank_command(options_, run_);
    config.ranks.environment = rank_variables();
    config.ranks.count = options_.ranks;
    config.ranks.token = token_;
    config.ranks.on_line = print_line_of;
    const config::Run& keys = worlds_->job().run;
    config.patience = patience_of(keys);
    config.stack_command = stack_command();
    config.on_note = [](const std::string& note) { print_error("note", note); };
    config.on_hang = [run = run_](const auto& cause, const auto& lines) {
      write_hang(run, cause, lines);
    };
    if (memory_)
      config.on_start = [memory = memory_](auto generation) { memory->begin(generation); };
    if (!leads) return config;
    config.leads = elastic::Membership::Config{
        .run_id = id,
        .least = nodes_.least,
        .most = nodes_.most,
        .max_restarts = options_.max_restarts,
        .last_generation = last_generation(run_),
        .death_s = options_.lost_after_s,
        .patience_s = options_.join_timeout_s,
        .progress = [run = run_, memory = memory_] { return progress_with(memory.get(), run); },
        .complete = config.member.complete,
        .fits = [worlds = worlds_](std::uint64_t world) { return worlds->fit(world); }};
    config.on_fault = [run = run_](const elastic::Fault& fault) { write_event(run, fault); };
    if (!endpoint_.local)
      config.remember = [run = run_](std::uint64_t generation) {
        make_directories(run);
        replace_file(run / kGenerationName, std::to_string(generation) + "\n");
      };
    return config;
  }

  static constexpr std::size_t kLongestId = 200;  // part of messages between agents

  const LaunchOptions& options_;
  std::shared_ptr<Worlds> worlds_;
  std::int64_t last_step_;  // with whose checkpoint the run is done
  Nodes around_;
  Range nodes_;
  Path run_;
  os::Address endpoint_;
  std::string token_;
  std::shared_ptr<HostMemory> memory_;  // where the job keeps snapshots there
};

}  // namespace

int launch(const LaunchOptions& given) {
  end_on_stop_signals();
  std::signal(SIGPIPE, SIG_IGN);  // the ranks continue when their output has no reader
  LaunchOptions options = given;
  options.train = of_its_run(given.train);
  return Launched(options).keep_at_work();
}

}  // namespace trireme::app
