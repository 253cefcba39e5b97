#include "trireme/config/resolve/check_groups.h"

#include <bit>
#include <numeric>

#include "trireme/base/error.h"
#include "trireme/config/resolve/resolve.h"

namespace trireme::config {

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

void check_group(const Job& job) {
  const std::int64_t group = job.precision.group, count = accumulation(job);
  if (group == 0) return;
  if (job.precision.numerics == Numerics::kFast)
    fail(ErrorKind::kUsage,
         "precision.group={} with precision.numerics=fast, which adds all micro-batches of a rank "
         "in a row; leave group out",
         group);
  if (count % group == 0) return;
  const std::int64_t all = count * dp(job);
  const std::int64_t smaller = std::gcd(group, count);
  fail(ErrorKind::kUsage,
       "precision.group={}: a rank has {} of {} micro-batches, no multiple of it; set{} "
       "precision.group={}, which has other bits",
       group, count, all,
       all % group == 0
           ? fmt::format(" a number of data-parallel ranks that divides {}, or", all / group)
           : "",
       smaller);
}

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

}  // namespace trireme::config
