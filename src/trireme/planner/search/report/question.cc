#include "trireme/planner/search/report/question.h"

#include <algorithm>

#include "trireme/base/error.h"
#include "trireme/base/text.h"
#include "trireme/config/families.h"
#include "trireme/config/fields/fields.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/plan/simulate/cost.h"
#include "trireme/planner/hardware/calibrate.h"
#include "trireme/planner/hardware/machine.h"

namespace trireme::planner {
namespace {

// What is kept in host memory or on disks needs a way there.
void check_offload(const Question& question) {
  const Cluster& cluster = question.cluster;
  const auto need = [&](Tier used, std::string_view tier, std::string_view key, double rate) {
    if (rate > 0 || !question.job.offload.uses(used)) return;
    for (const std::string& kept : question.kept) {
      const config::Value value = config::find_field(kept)->get(question.job);
      if (kept.starts_with("offload.") && config::write_value(value) == tier)
        fail(ErrorKind::kUsage,
             "{}={} is kept, but cluster {} names no {}; put it in a file: "
             "{{like: {}, {}: ...}}",
             kept, tier, cluster.name, key, cluster.name, key);
    }
  };
  need(Tier::kHost, "host", "host_rate", cluster.host_rate);
  need(Tier::kNvme, "nvme", "disk_rate", cluster.disk_rate);
}

// Keys that a layout does not set stay as the user has them: timeouts, the method of context parallelism.
bool stays(std::string_view key) {
  return key == "parallel.comm_timeout_s" || key == "parallel.context" || key == "parallel.costs" ||
         key == "recompute.logits";
}

}  // namespace

bool chosen(std::string_view key) {
  return (key.starts_with("parallel.") || key.starts_with("recompute.") ||
          key.starts_with("offload.") || key == "run.micro_batch") &&
         !stays(key);
}

bool Question::keeps(std::string_view key) const { return std::ranges::count(kept, key) > 0; }

bool on_gpus(const Cluster& cluster) { return !cluster.gpu.cpu; }
std::string devices(const Cluster& cluster, int number) {
  return counted(number, cluster.device());
}

double memory_of(const Question& question) {
  const Cluster& cluster = question.cluster;
  const auto memory = static_cast<double>(cluster.gpu.memory);
  if (on_gpus(cluster)) return memory;
  return memory * cluster.gpus_per_host / std::clamp(question.gpus, 1, cluster.gpus_per_host);
}

double usable_memory(const Question& question) { return kUsable * memory_of(question); }

MemoryConstants memory_constants(const Question& question) {
  const Cluster& cluster = question.cluster;
  if (on_gpus(cluster)) return {};
  // Of a machine that was calibrated ranks are threads of one process.
  const int ranks = std::max(question.gpus, 1);
  const double process = cluster.gpu.core
                             ? outside_tensors(*cluster.gpu.core, ranks) / ranks
                             : static_cast<double>(simulate::CostModel{}.process_bytes);
  return {.holes = 0, .context = process, .communicator = 0};
}

Question completed(Question question) {
  const Cluster& cluster = question.cluster;
  if (question.gpus < 0)
    fail(ErrorKind::kUsage, "{}: a plan needs 1 or more", devices(cluster, question.gpus));
  if (question.gpus == 0) question.gpus = cluster.gpus();
  if (question.gpus == 0)
    fail(ErrorKind::kUsage, "cluster {} has {} of {}: a plan needs 1 or more", cluster.name,
         counted(cluster.hosts, "host"), devices(cluster, cluster.gpus_per_host));
  if (question.gpus > cluster.gpus())
    fail(ErrorKind::kUsage,
         "{}, but cluster {} has {} of {} = {}; take fewer, or give it more hosts",
         devices(cluster, question.gpus), cluster.name, counted(cluster.hosts, "host"),
         cluster.gpus_per_host, cluster.gpus());
  for (const std::string& key : question.kept) {
    if (config::find_field(key) == nullptr)
      fail(ErrorKind::kUsage, "{} is not a key of a job; {}", key, config::suggest(key));
    if (!chosen(key)) fail(ErrorKind::kUsage, "{} is not chosen by a plan: its value stays", key);
  }
  const config::Job plain;
  for (const config::Field& field : config::fields())
    if (chosen(field.key) && !question.keeps(field.key)) field.set(question.job, field.get(plain));
  question.job.run.find_micro_batch = false;
  question.job.run.device = on_gpus(cluster) ? config::Device::kCuda : config::Device::kCpu;
  config::choose_compute(question.job);
  if (on_gpus(cluster) && question.gpus > 1)
    question.job.precision.numerics = config::Numerics::kFast, question.job.precision.group = 0;
  check_offload(question);
  if (cluster.gpu.core) {
    if (const std::string why = unforeseen(question.job); !why.empty())
      fail(ErrorKind::kUsage, "{} has no layout forecast: {}; choose another precision or cluster",
           cluster.name, why);
    question.practice = cores_practice();
  }
  if (!question.job.parallel.schedule_file.empty())
    fail(ErrorKind::kUsage,
         "parallel.schedule={}: a schedule that is given has its own micro-batches; keep a name "
         "instead",
         question.job.parallel.schedule_file);
  question.practice = asked(question.practice, question.job, on_gpus(cluster));
  return question;
}

int micro_batch_alone(const config::Job& job) {
  return config::info(job).chain ? 1 : static_cast<int>(job.run.global_batch);
}

config::Job resolved_alone(const Question& question) {
  config::Job job = question.job;
  const config::Parallel given = job.parallel;
  job.parallel = {};
  job.parallel.context = given.context;
  job.parallel.context_inner = given.context_inner;
  job.parallel.comm_timeout_s = given.comm_timeout_s;
  job.run.micro_batch = micro_batch_alone(job);
  return config::resolve(std::move(job), 1, question.data);
}

}  // namespace trireme::planner
