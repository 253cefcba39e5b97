#include "trireme/config/resolve/check_network.h"

#include <bit>

#include "trireme/base/error.h"
#include "trireme/comm/codec/codec.h"
#include "trireme/config/resolve/nccl_settings.h"
#include "trireme/config/resolve/resolve.h"

namespace trireme::config {
namespace {

// Ranks that exchange codes: replicas of sharded units, else all data-parallel ranks.
bool has_two_levels(const Parallel& parallel) {
  return parallel.zero >= 1 && parallel.dp_shard > 1 && parallel.dp_replicate > 1;
}
int exchanging(const Parallel& parallel) {
  return has_two_levels(parallel) ? parallel.dp_replicate
                                  : parallel.dp_shard * parallel.dp_replicate;
}

codec::Codec codec_of(const std::string& text, const std::string& seen, const char* more) {
  try {
    return codec::parse(text);
  } catch (const Error&) {
    fail(ErrorKind::kUsage, "{}: no such codec; choose bf16, q8, q4 or f4{}", seen, more);
  }
}

void check_codecs(const Network& network) {
  const auto [text, residual] = codec_and_residual(network);
  const codec::Codec codec =
      codec_of(text, "network.codec=" + network.codec,
               ", alone or with the type of residuals, such as q4:bf16, or sign:fp32, "
               "topk:SHARE:BITS:fp32 or randk:SHARE:BITS");
  if (codec::needs_residual(codec) && !residual)
    fail(ErrorKind::kUsage,
         "network.codec={}: this codec diverges without residuals; set network.codec={}:fp32, or "
         "choose bf16, q8, q4 or f4",
         text, text);
  if (network.back == Network().back) return;
  const codec::Codec back = codec_of(network.back, "network.back=" + network.back, "");
  if (codec::is_sparse(back) || codec::needs_residual(back))
    fail(ErrorKind::kUsage,
         "network.back={}: this codec needs residuals, which only network.codec has; choose bf16, "
         "q8, q4 or f4",
         network.back);
}

void refuse(const Job& job, const std::string& seen, const std::string& needed) {
  fail(ErrorKind::kUsage, "network.codec={} with {}: needs {}, or network.codec=none",
       job.network.codec, seen, needed);
}

void check_layout(const Job& job) {
  const Parallel& parallel = job.parallel;
  for (const auto& [key, degree] :
       {std::pair{"tp", parallel.tp}, std::pair{"cp", parallel.cp}, std::pair{"pp", parallel.pp}})
    if (degree > 1)
      refuse(job, fmt::format("parallel.{}={}", key, degree), fmt::format("parallel.{}=1", key));
  if (parallel.zero >= 2 && parallel.dp_shard > 1 && parallel.dp_replicate == 1)
    refuse(job, fmt::format("parallel.zero={}, which reduces every micro-batch", parallel.zero),
           "parallel.zero=1, or parallel.dp_replicate hosts with their ranks as shards");
  if (job.run.device == Device::kCuda) refuse(job, "run.device=cuda", "run.device=cpu");
  const Precision& precision = job.precision;
  if (precision.numerics != Numerics::kCanonical)
    refuse(job, "precision.numerics=fast", "precision.numerics=canonical");
  if (precision.grads != DType::kF32)
    refuse(job, fmt::format("precision.grads={}", name(precision.grads.value())),
           "precision.grads=fp32");
  if (job.offload.grads != Tier::kNone) refuse(job, "offload.grads", "offload.grads=none");
  if (job.offload.optimizer != Tier::kNone && codec_and_residual(job.network).second)
    refuse(job, "offload.optimizer", "offload.optimizer=none, since residuals stay in memory");
}

void check_senders(const Job& job) {
  const Parallel& parallel = job.parallel;
  const int count = senders(job), ranks = exchanging(parallel);
  const auto wrong = [&](const std::string& why) {
    fail(ErrorKind::kUsage, "network.senders={}: {}", count, why);
  };
  if (has_two_levels(parallel) && count != ranks)
    wrong(
        fmt::format("ZeRO-{} adds over parallel.dp_shard={} before sums are coded, so each of {} "
                    "replicas is one sender; set network.senders={}, or parallel.zero=0",
                    parallel.zero, parallel.dp_shard, ranks, ranks));
  if (count % ranks != 0)
    wrong(
        fmt::format("{} data-parallel ranks have no whole senders each; set a multiple of {}, or "
                    "parallel.zero=1 with parallel.dp_replicate={} and the rest as dp_shard",
                    ranks, ranks, count));
  const std::int64_t sums =
      accumulation(job) * parallel.dp_shard * parallel.dp_replicate / sum_group(job);
  if (sums % count != 0 || !std::has_single_bit(static_cast<std::uint64_t>(sums / count)))
    wrong(
        fmt::format("a step adds {} sums of micro-batches, and each sender needs a power of two "
                    "of them; change network.senders or run.global_batch",
                    sums));
}

}  // namespace

bool codes_sums(const Job& job) { return job.network.codec != Network().codec; }

std::pair<std::string, std::optional<DType>> codec_and_residual(const Network& network) {
  const std::string& text = network.codec;
  const std::size_t colon = text.rfind(':');
  if (colon != std::string::npos)
    for (const DType type : {DType::kBF16, DType::kF32})
      if (text.substr(colon + 1) == name(type)) return {text.substr(0, colon), type};
  return {text, std::nullopt};
}

int senders(const Job& job) {
  return job.network.senders > 0 ? static_cast<int>(job.network.senders) : exchanging(job.parallel);
}

void check_network(const Job& job) {
  const Network plain;
  check_nccl(job);
  if (!codes_sums(job)) {
    if (job.network.senders != plain.senders || job.network.back != plain.back)
      fail(ErrorKind::kUsage,
           "network.senders or network.back is set with network.codec=none, which codes nothing; "
           "choose a codec or leave it out");
    return;
  }
  check_codecs(job.network);
  check_layout(job);
  check_senders(job);
}

}  // namespace trireme::config
