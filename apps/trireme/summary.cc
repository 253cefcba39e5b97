#include "summary.h"

#include <sys/mman.h>
#include <unistd.h>

#include <utility>

#include "apps/trireme/bench/calibration.h"
#include "trireme/base/cpu.h"
#include "trireme/base/error.h"
#include "trireme/base/hash.h"
#include "trireme/config/families.h"
#include "trireme/config/fields/fields.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/job/runs/weights.h"
#include "trireme/plan/memory.h"
#include "trireme/plan/simulate/simulate.h"

namespace trireme::app {
namespace {

std::string layout_text(const config::Job& job) {
  const config::Parallel& p = job.parallel;
  std::string text;
  const auto add = [&](const char* axis, int degree) {
    if (degree > 1) text += fmt::format("{} {}, ", axis, degree);
  };
  const bool shards = p.zero > 0;
  add("pp", p.pp);
  if (shards) add("dp_replicate", p.dp_replicate);
  shards ? add("dp_shard", p.dp_shard) : add("dp", p.dp_replicate * p.dp_shard);
  add("cp", p.cp);
  if (p.cp > 1)
    text += fmt::format("{}, ",
                        std::get<std::string>(config::find_field("parallel.context")->get(job)));
  add("tp", p.tp);
  if (p.tp > 1 && p.sequence_parallel) text += "sequence parallel, ";
  if (shards) return text + fmt::format("ZeRO-{}", p.zero);
  if (p.dp_replicate * p.dp_shard * p.cp > 1) return text + "replicated (ZeRO-0)";
  return text.empty() ? "one rank" : text.substr(0, text.size() - 2);
}

// What people know a family's models by.
std::string sizes_text(const config::Job& job) {
  if (!config::info(job).chain) return "";
  const config::Model& m = job.model;
  return fmt::format("{} layers, {} wide, {} heads, context {}, vocabulary {}: ", m.layers,
                     m.hidden, m.heads, m.seq_len, m.vocab);
}

std::string memory_text(const plan::MemoryPoint& point) {
  std::string text;
  for (std::size_t kind = 0; kind < point.size(); ++kind)
    if (point[kind] > 0)
      text += fmt::format("{}{} {:.1f}", text.empty() ? "" : ", ",
                          plan::name(static_cast<plan::MemoryKind>(kind)),
                          static_cast<double>(point[kind]) / 1e6);
  return text;
}

}  // namespace

TrainOptions of_its_run(TrainOptions options) {
  if (!options.job.file.empty() || options.out.empty()) return options;
  const bool said = options.job.ranks || options.job.nproc;
  options.job =
      with_job_of_run(std::move(options.job), options.out, said || find_place({}, {}).launched());
  return options;
}

config::Job job_to_train(const TrainOptions& options) {
  config::Job job = runs::read_job(options.job, options.out);
  if (!job.model.weights.empty()) {
    const auto place = find_place({}, {});
    const bool leads = !place.launched() || place.rank == 0;
    job.model.weights =
        settled_weights(
            job.model.weights, options.out, options.resume != "auto" && options.resume != "never",
            leads ? formats::CheckpointCheck::kEveryByte : formats::CheckpointCheck::kManifest)
            .string();
  }
  if (!options.steps) return job;
  if (*options.steps < 1)
    fail(ErrorKind::kUsage, "--steps {}; needs the number of the last step, 1 or more",
         *options.steps);
  // The learning rate follows the job's own length, so that a run may stop early and continue later.
  if (job.optim.decay_steps == 0) job.optim.decay_steps = job.run.steps;
  config::apply_set(job, fmt::format("run.steps={}", *options.steps));
  return job;
}

std::string job_in_memory(const std::string& text) {
  const int fd = ::memfd_create("job", 0);
  TRIREME_CHECK(
      fd >= 0 && ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()),
      "memfd");
  return fmt::format("/proc/self/fd/{}", fd);
}

std::string choice_of_precision(const config::Job& resolved) {
  const std::string type(name(resolved.precision.compute));
  if (resolved.run.device == config::Device::kCuda)
    return fmt::format("precision.compute=auto is {} on GPUs", type);
  return fmt::format("precision.compute=auto is {} here, the fastest on a CPU with {}", type,
                     name(matrix_unit()));
}

std::string short_summary(const Planned& planned, const Place& place) {
  const config::Job& job = planned.job;
  const config::Model& m = job.model;
  const plan::MemoryAccount memory = plan::memory_account(planned.plan, 0);
  std::string text =
      fmt::format("model     {}: {}{:.2f}M parameters\n", name(m.family), sizes_text(job),
                  static_cast<double>(planned.model.parameters()) / 1e6);
  text +=
      fmt::format("step      {} samples of {} tokens: {} x {} micro-batches of {} samples, {}\n",
                  job.run.global_batch, planned.model.sample_tokens, config::dp(job),
                  config::accumulation(job), job.run.micro_batch, name(job.precision.compute));
  text += fmt::format("layout    {}\n", layout_text(job));
  text += fmt::format("plan      {} lines a rank, proven free of deadlock, digest {}\n",
                      planned.plan.list(0).size(), hex64(plan::digest(planned.plan)));
  text += fmt::format("memory    {:.1f} MB a rank at its peak ({} at their peaks)\n",
                      static_cast<double>(memory.peak_total) / 1e6, memory_text(memory.peak));
  const planner::StepForecast expected = expect(planned, place);
  if (expected.step_s == 0) return text + fmt::format("forecast  {}\n", expected.source);
  const simulate::ListForecast& first = expected.lines.lists.front();
  text += fmt::format(
      "forecast  {:.1f} ms a step{}: {:.1f} ms computing, {:.1f} ms waiting for communication, "
      "{}{:.1f} MB sent\n",
      1e3 * expected.step_s,
      expected.low_s > 0
          ? fmt::format(" ({:.1f} to {:.1f})", 1e3 * expected.low_s, 1e3 * expected.high_s)
          : " on one core a rank",
      1e3 * first.comp_busy_s, 1e3 * first.exposed_comm_s,
      first.exposed_offload_s > 0
          ? fmt::format("{:.1f} ms waiting for offload, ", 1e3 * first.exposed_offload_s)
          : "",
      first.sent_bytes / 1e6);
  if (expected.process_bytes > 0)
    text +=
        fmt::format("          {:.1f} MB held by the process of rank 0, without pages of files\n",
                    expected.process_bytes / 1e6);
  text += fmt::format("          {}\n", expected.source);
  return text;
}

}  // namespace trireme::app
