#include "trireme/config/resolve/resolve.h"

#include <bit>
#include <charconv>
#include <cmath>
#include <numeric>

#include "trireme/base/cpu.h"
#include "trireme/base/error.h"
#include "trireme/config/families.h"
#include "trireme/config/resolve/coded_sums.h"
#include "trireme/config/rules/rule.h"

namespace trireme::config {
namespace {

void note_groups(const Job& job, std::vector<std::string>& remarks) {
  const std::int64_t on_rank = accumulation(job), all = on_rank * dp(job);
  const std::int64_t group = sum_group(job), wanted = sum_group(job.precision, all, all);
  if (group != wanted)
    remarks.push_back(fmt::format(
        "{} micro-batches a step are added in groups of {}, and a rank has {}: groups of {} here, "
        "with other bits than on at most {} data-parallel ranks; precision.group={} on both has "
        "the same",
        all, wanted, on_rank, group, all / wanted, group));
  if (group > 1 && job.parallel.zero >= 2 && job.parallel.dp_shard > 1 &&
      job.offload.grads != Tier::kNone)
    remarks.push_back(fmt::format(
        "offload.grads with groups of {} micro-batches: ZeRO-{} adds over ranks before groups, "
        "with other bits than other layouts; precision.group=1 has theirs",
        group, job.parallel.zero));
}

}  // namespace

void choose_compute(Job& job) {
  if (!job.precision.compute_auto) return;
  job.precision.compute_auto = false;
  job.precision.compute = job.run.device == Device::kCuda ? DType::kBF16 : fast_type(matrix_unit());
}

Job resolve(Job job, int world, const DatasetFacts& data) {
  if (world < 1) fail(ErrorKind::kUsage, "a world of {} ranks; needs 1 or more", world);
  for (const Rule& rule : rules()) run(rule, job, {world, data});
  return job;
}

void keep_one_rank(Job& job) {
  job.parallel = {};
  job.recompute = {};
  job.offload = {};
  job.network = {};
  job.run.find_micro_batch = false;
  job.run.memory_limit = {};
  job.vlm.features.clear();
}

std::vector<std::string> notes(const Job& job) {
  std::vector<std::string> remarks;
  note_groups(job, remarks);
  const std::int64_t ids = job.run.global_batch / job.run.micro_batch;
  const bool powers = std::has_single_bit(static_cast<std::uint64_t>(ids / sum_group(job))) &&
                      std::has_single_bit(static_cast<std::uint64_t>(dp(job)));
  // docs/numerics.md, "What is promised".
  const bool any_number =
      job.parallel.zero >= 2 && job.parallel.dp_replicate == 1 && job.offload.grads == Tier::kNone;
  if (job.precision.numerics == Numerics::kCanonical && !powers && !any_number)
    remarks.push_back(fmt::format(
        "{} micro-batches a step on dp={}: equal bits on every layout need powers of two, or "
        "ZeRO-2 or 3 without replicas",
        ids, dp(job)));
  const bool narrow = size_of(job.precision.compute) < size_of(DType::kF32);
  if (job.run.device == Device::kCpu && narrow && fast_type(matrix_unit()) == DType::kF32)
    remarks.push_back(fmt::format(
        "precision.compute={} is slower than fp32 on this CPU ({}); auto takes the faster type",
        name(job.precision.compute), name(matrix_unit())));
  if (job.offload.uses(Tier::kHost) && job.run.device == Device::kCpu)
    remarks.push_back(
        "offload to host with run.device=cpu: ranks compute in host memory, so this moves bytes "
        "and saves none; nvme saves them");
  if ((job.offload.uses(Tier::kHost) || job.offload.uses(Tier::kNvme)) &&
      job.run.device == Device::kCuda)
    remarks.push_back(
        "offload with run.device=cuda: copies between device and host are synchronous and from "
        "pageable memory so far, so they do not overlap with computing");
  for (std::string& note : network_notes(job)) remarks.push_back(std::move(note));
  const Parallel& parallel = job.parallel;
  if (parallel.tp > 1 && parallel.sequence_parallel && !info(job).sequence_parallel)
    remarks.push_back(fmt::format(
        "parallel.sequence_parallel: family {} has all rows on every tp rank between layers",
        name(job.model.family)));
  if (parallel.cp > 1 && !info(job).zigzag)
    remarks.push_back(
        fmt::format("parallel.cp={}: ranks share the rows of family {}'s blocks in order and "
                    "attend with context=all_gather",
                    parallel.cp, name(job.model.family)));
  if (parallel.zero > 0 && parallel.dp_shard * parallel.cp == 1 && parallel.dp_replicate > 1)
    remarks.push_back(fmt::format(
        "parallel.zero={} shards over dp_shard=1, so every rank holds everything", parallel.zero));
  if (!info(job).chain) return remarks;
  // Query heads of one group on several ranks.
  const std::int64_t group = job.model.heads / job.model.kv_heads;
  bool shared = false;
  for (int rank = 0; rank < parallel.tp; ++rank)
    shared = shared || job.model.heads * rank / parallel.tp % group != 0;
  if (shared)
    remarks.push_back(
        fmt::format("model.kv_heads={} on parallel.tp={}: several ranks keep a copy of the same "
                    "key-value heads and add their gradients over tp",
                    job.model.kv_heads, parallel.tp));
  return remarks;
}

int dp(const Job& job) { return job.parallel.dp_replicate * job.parallel.dp_shard; }

std::int64_t accumulation(const Job& job) {
  return job.run.global_batch / (job.run.micro_batch * dp(job));
}

std::int64_t sum_group(const Precision& precision, std::int64_t all, std::int64_t on_rank) {
  if (precision.numerics == Numerics::kFast) return 1;
  std::int64_t group = precision.group;
  if (group == 0)
    group = static_cast<std::int64_t>(
        std::bit_ceil(static_cast<std::uint64_t>((all + kSumGroups - 1) / kSumGroups)));
  return std::gcd(group, on_rank);
}

std::int64_t sum_group(const Job& job) {
  const std::int64_t on_rank = accumulation(job);
  return sum_group(job.precision, on_rank * dp(job), on_rank);
}

double fixed_loss_scale(const Precision& precision) {
  const std::string& text = precision.loss_scale;
  if (text == "off") return 1;
  double scale = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), scale);
  if (error != std::errc() || end != text.data() + text.size() || !(scale > 0) ||
      !std::isfinite(scale))
    fail(ErrorKind::kUsage,
         "precision.loss_scale={}: needs auto, off, dynamic or a number above 0, such as 1024",
         text);
  return scale;
}

}  // namespace trireme::config
