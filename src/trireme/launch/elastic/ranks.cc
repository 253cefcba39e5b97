#include "trireme/launch/elastic/ranks.h"

#include <signal.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/launch/watch/recorder.h"
#include "trireme/launch/watch/state.h"

namespace trireme::elastic {
namespace {

// Only processes that inherit it can read it; freed with the last of them.
os::Descriptor in_memory(const std::string& text) {
  os::Descriptor memory(::memfd_create("trireme-token", MFD_CLOEXEC));
  if (!memory.open() ||
      ::write(memory.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    fail(ErrorKind::kUsage, "no memory to hand the token to ranks: {}; raise ulimit -n",
         std::strerror(errno));
  return memory;
}

}  // namespace

Ranks::Ranks(os::Processes& processes, Config config)
    : processes_(processes), config_(std::move(config)), token_(in_memory(config_.token)) {
  TRIREME_CHECK(config_.count >= 1 && !config_.command.empty(), "{} ranks", config_.count);
}

std::vector<std::string> Ranks::environment(const Assignment& assignment, int local_rank,
                                            int flight) const {
  const auto text = [](auto value) { return std::to_string(value); };
  const os::Address& store = config_.store;
  const std::vector<std::pair<std::string, std::string>> own = {
      {"RANK", text(assignment.first_rank + static_cast<std::uint64_t>(local_rank))},
      {"LOCAL_RANK", text(local_rank)},
      {"WORLD_SIZE", text(assignment.world)},
      {"LOCAL_WORLD_SIZE", text(config_.count)},
      // This address has no listener: it shows the route to other hosts.
      {"MASTER_ADDR", store.local ? "127.0.0.1" : store.host},
      {"MASTER_PORT", text(store.local ? 1 : store.port)},
      {kStoreVariable, print(store)},
      {kTokenVariable, text(token_.get())},
      {kGenerationVariable, text(assignment.generation)},
      {kServersVariable, text(assignment.servers)},
      {kFlightVariable, text(flight)}};
  std::vector<std::string> all;
  for (const std::string& entry : config_.environment) {
    const std::string key = entry.substr(0, entry.find('='));
    if (std::none_of(own.begin(), own.end(), [&](const auto& pair) { return pair.first == key; }))
      all.push_back(entry);
  }
  for (const auto& [key, value] : own) all.push_back(key + "=" + value);
  return all;
}

void Ranks::start(const Assignment& assignment) {
  running_.clear();
  memory_kills_ = config_.memory_kills();
  for (int local = 0; local < config_.count; ++local) {
    const int rank = static_cast<int>(assignment.first_rank) + local;
    // New for each: a rank that returns from an older generation writes into memory without readers.
    const os::Descriptor flight = watch::shared_area();
    auto area = watch::map_area(flight.get());
    const int pid = processes_.spawn({.command = config_.command,
                                      .environment = environment(assignment, local, flight.get()),
                                      .capture = rank != 0,
                                      .keep = {token_.get(), flight.get()}});
    running_[pid] = {.rank = rank, .process = pid, .area = std::move(area)};
  }
}

void Ranks::signal(int number) {
  for (const auto& [pid, rank] : running_) processes_.signal(pid, number);
}

std::vector<Watched> Ranks::watched() const {
  std::vector<Watched> all;
  for (const auto& [pid, rank] : running_) all.push_back(rank);
  return all;
}

// The kernel counts such a kill before it sends the signal.
bool Ranks::starved(const os::ProcessEvent& event) {
  if (event.signal != SIGKILL) return false;
  const std::optional<std::int64_t> kills = config_.memory_kills();
  if (!kills || !memory_kills_ || *kills <= *memory_kills_) return false;
  ++*memory_kills_;
  return true;
}

void Ranks::handle(const os::ProcessEvent& event,
                   const std::function<void(const RankEnd&)>& on_end) {
  const auto found = running_.find(event.pid);
  if (found == running_.end()) return;
  const int rank = found->second.rank;
  if (event.kind == os::ProcessEvent::Kind::kLine) {
    if (config_.on_line) config_.on_line(rank, event.line);
    return;
  }
  RankEnd end{.rank = rank, .code = event.code, .signal = event.signal, .starved = starved(event)};
  const watch::Area& area = *found->second.area;
  const watch::State state = watch::read_state(area);
  const bool met = area.version == watch::kVersion;
  if (met) end.doing = watch::doing(state);
  if (met) end.lost = area.lost.load() - 1;
  // A process that never arrived is no rank of ours, and may end in any way.
  if (end.code == 0 && end.signal == 0 && area.process != 0 && state.phase != watch::Phase::kEnd)
    end.early = met ? RankEnd::Early::kAtWork : RankEnd::Early::kAlone;
  running_.erase(found);
  on_end(end);
}

}  // namespace trireme::elastic
