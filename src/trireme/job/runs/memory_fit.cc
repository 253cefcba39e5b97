#include "trireme/job/runs/memory_fit.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "trireme/base/error.h"
#include "trireme/base/free_memory.h"
#include "trireme/base/text.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/plan/saved.h"
#include "trireme/plan/simulate/cost.h"
#include "trireme/planner/cost/expected_memory.h"
#include "trireme/planner/cost/expected_share.h"

namespace trireme::runs {
namespace {

std::string bytes(std::int64_t count) { return bytes_text(static_cast<double>(count)); }

// What a rank may need, and where that comes from.
struct Allowance {
  std::int64_t bytes = 0;
  std::string source;
};

Allowance allowance(const config::Job& job, const Place& place) {
  if (job.run.memory_limit.count > 0) return {job.run.memory_limit.count, "run.memory_limit"};
  if (job.run.device == config::Device::kCuda)
    fail(ErrorKind::kUsage,
         "run.micro_batch=0 with run.device=cuda: the memory of a GPU is not known here; set "
         "run.memory_limit to the memory that a rank may use");
  // The rest is for uncounted memory: the page cache of the data, other programs.
  constexpr double kShare = 0.9;
  const std::optional<std::int64_t> free = free_memory();
  if (!free)
    fail(ErrorKind::kUsage,
         "run.micro_batch=0: the kernel does not say how much memory is free; set "
         "run.memory_limit");
  const auto share = static_cast<std::int64_t>(kShare * static_cast<double>(*free));
  return {share / place.world, fmt::format("nine tenths of the free {} over {} rank{}",
                                           bytes(*free), place.world, place.world == 1 ? "" : "s")};
}

// Divisors, largest first.
std::vector<std::int64_t> divisors(std::int64_t number) {
  std::vector<std::int64_t> found;
  for (std::int64_t candidate = number; candidate > 0; --candidate)
    if (number % candidate == 0) found.push_back(candidate);
  return found;
}

// Files of snapshots in memory for a rank on its host: two are kept and a third is being written. Each has the part
// that a replica of another host's rank has.
std::int64_t kept_in_memory(const Planned& planned, const Place& place, int rank) {
  constexpr std::int64_t kSnapshots = 3;
  const config::Checkpoint& keys = planned.job.checkpoint;
  if (keys.memory_every == 0) return 0;
  const auto saved = [&](int of) {
    return plan::saved_bytes(planned.plan, of, keys.trainable_only);
  };
  const int hosts = place.world / place.local_world;
  if (hosts < 2) return kSnapshots * saved(rank);
  const int previous = (rank + place.world - place.local_world) % place.world;
  return kSnapshots * (saved(rank) + saved(previous));
}

// The most at any line of the step, of kinds whose bytes the plan fixes.
std::int64_t certain_bytes(const simulate::Footprint& one) {
  using plan::MemoryKind;
  const auto fixed = [](const plan::MemoryPoint& point) {
    std::int64_t sum = 0;
    for (const MemoryKind kind :
         {MemoryKind::kParams, MemoryKind::kOptimizer, MemoryKind::kGradients, MemoryKind::kHost})
      sum += point[static_cast<std::size_t>(kind)];
    return sum;
  };
  std::int64_t most = fixed(one.account.persistent);
  for (const plan::MemoryPoint& line : one.account.at_line) most = std::max(most, fixed(line));
  return most;
}

// A rank's share of what its process holds in addition to tensors.
std::int64_t library_share(const Place& place, const std::optional<planner::Calibration>& machine) {
  const int ranks = place.launcher == Launcher::kThreads ? place.world : 1;
  const double process = machine ? planner::outside_tensors(*machine->machine.gpu.core, ranks)
                                 : static_cast<double>(simulate::CostModel{}.process_bytes);
  return static_cast<std::int64_t>(process) / ranks;
}

}  // namespace

std::vector<simulate::Footprint> footprints(const Planned& planned, const Place& place,
                                            const std::optional<planner::Calibration>& machine) {
  const config::Job& job = planned.job;
  const bool host = job.run.device == config::Device::kCpu;
  std::vector<simulate::Footprint> lists =
      simulate::footprints(planned.plan, host ? library_share(place, machine) : 0, host);
  for (simulate::Footprint& one : lists) {
    one.measured = host && machine.has_value();
    one.samples = planner::samples_ahead(planned.plan, job, one.ranks.front());
  }
  if (planner::ExpectedShare(job).varies()) {
    const plan::PlanSet expected = planner::with_expected_rows(planned.plan, job);
    for (simulate::Footprint& one : lists)
      one.expected_peak = plan::memory_account(expected, one.ranks.front()).peak_of_tensors();
  }
  if (!host) return lists;
  for (simulate::Footprint& one : lists) {
    one.snapshot = planner::snapshot_bytes(planned.plan, job, one.ranks.front());
    for (const int rank : one.ranks)
      one.kept = std::max(one.kept, kept_in_memory(planned, place, rank));
  }
  return lists;
}

HostNeed host_need(const Planned& planned, const Place& place,
                   const std::optional<planner::Calibration>& machine) {
  const int first = place.rank - place.local_rank;
  HostNeed need{.ranks = std::min(place.local_world, place.world - first)};
  for (const simulate::Footprint& one : footprints(planned, place, machine)) {
    const std::int64_t certain = certain_bytes(one);
    for (const int rank : one.ranks) {
      if (rank < first || rank >= first + need.ranks) continue;
      need.bytes += one.needed() - one.kept;
      need.certain += certain;
    }
  }
  return need;
}

std::string text_of(const HostNeed& need) {
  return fmt::format("{} rank{} of this host need{} {} by forecast", need.ranks,
                     need.ranks == 1 ? "" : "s", need.ranks == 1 ? "s" : "", bytes(need.bytes));
}

std::optional<std::string> check_memory(const Planned& planned, const Place& place,
                                        const std::optional<planner::Calibration>& machine,
                                        const Path& root) {
  const std::int64_t limit = planned.job.run.memory_limit.count;
  if (limit > 0)
    if (const auto misfit =
            simulate::misfit(planned.plan, footprints(planned, place, machine), limit))
      fail(ErrorKind::kOutOfMemory, "{} (run.memory_limit)", *misfit);
  const std::optional<std::int64_t> free = free_memory(root);
  if (planned.job.run.device != config::Device::kCpu || place.local_rank != 0 || !free)
    return std::nullopt;
  const HostNeed need = host_need(planned, place, machine);
  if (need.bytes <= *free) return std::nullopt;
  const std::optional<std::int64_t> group = memory_limit(root);
  const std::string left = fmt::format(
      "{} is left{}", bytes(*free),
      group ? fmt::format(" of the {} that its control group allows", bytes(*group)) : "");
  if (limit == 0 && need.certain > *free)
    fail(ErrorKind::kOutOfMemory,
         "{}, {} of it for parameters, optimizer states and gradients, and {}; shard more "
         "(parallel.zero, more hosts), raise the limit, or set run.memory_limit, the most that a "
         "rank may need, to start anyway",
         text_of(need), bytes(need.certain), left);
  return fmt::format(
      "{}, and {}: the kernel may kill one; lower run.micro_batch, or shard more (parallel.zero)",
      text_of(need), left);
}

std::optional<std::string> too_small(const Planned& planned, const Place& place,
                                     const Path& memory) {
  struct statvfs system {};
  if (::statvfs(memory.c_str(), &system) != 0) return std::nullopt;
  const auto all = static_cast<std::int64_t>(system.f_blocks * system.f_frsize);
  const int first = place.rank - place.local_rank;
  std::int64_t needed = 0;
  for (int rank = first; rank < std::min(first + place.local_world, place.world); ++rank)
    needed += kept_in_memory(planned, place, rank);
  if (needed <= all) return std::nullopt;
  return fmt::format(
      "snapshots in memory need {} of {}, which has {}: they will not be written; make it larger "
      "(--shm-size in a container), or set checkpoint.memory_every=0",
      bytes(needed), memory.parent_path().string(), bytes(all));
}

config::Job with_found_micro_batch(
    config::Job job, const Place& place, const config::DatasetFacts& data,
    const std::optional<planner::Calibration>& machine, const MemoryTrial& trial,
    const std::function<void(std::int64_t micro_batch, const std::string& what)>& say) {
  job.run.find_micro_batch = false;  // a trial's job is printed with its own micro-batch
  job.run.micro_batch = 1;
  const Allowance allowed = allowance(job, place);
  const std::int64_t samples =
      job.run.global_batch / config::dp(config::resolve(job, place.world, data));
  std::string why = "nothing could be planned";
  for (const std::int64_t candidate : divisors(samples)) {
    job.run.micro_batch = candidate;
    std::optional<Planned> planned;
    try {
      planned = plan_job(job, place.world, data);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kUsage && error.kind() != ErrorKind::kOutOfMemory) throw;
      say(candidate, error.what());
      why = error.what();
      continue;
    }
    const std::vector<simulate::Footprint> lists = footprints(*planned, place, machine);
    const std::int64_t needed = simulate::largest(lists).needed();
    if (const auto misfit = simulate::misfit(planned->plan, lists, allowed.bytes)) {
      say(candidate, fmt::format("forecast {}, too much", bytes(needed)));
      why = *misfit;
      continue;
    }
    std::optional<std::int64_t> tried = trial(*planned);
    if (!tried) {
      say(candidate, fmt::format("forecast {}, its trial ran out of memory", bytes(needed)));
      why = fmt::format("the trial of run.micro_batch={} ran out of memory", candidate);
      continue;
    }
    *tried += simulate::largest(lists).outside_tensors();
    const bool fits = *tried <= allowed.bytes;
    say(candidate,
        fmt::format("forecast {}, measured {} of {} ({}): {}", bytes(needed), bytes(*tried),
                    bytes(allowed.bytes), allowed.source, fits ? "taken" : "too much"));
    if (fits) {
      return job;
    }
    why = fmt::format("run.micro_batch={} needs {}, {} is allowed", candidate, bytes(*tried),
                      bytes(allowed.bytes));
  }
  fail(ErrorKind::kOutOfMemory, "no run.micro_batch fits: {} ({})", why, allowed.source);
}

}  // namespace trireme::runs
