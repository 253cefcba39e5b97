#include "trireme/config/resolve/check_network.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/comm/codec/integer.h"
#include "trireme/config/resolve/nccl_settings.h"
#include "trireme/config/resolve/resolve.h"

namespace trireme::config {
namespace {

constexpr std::string_view kLowRank = "lowrank:";

bool sums_at_low_rank(const Job& job) { return job.network.codec.starts_with(kLowRank); }

// Ranks that exchange codes: replicas of sharded units, else all data-parallel ranks.
bool has_two_levels(const Parallel& parallel) {
  return parallel.zero >= 1 && parallel.dp_shard > 1 && parallel.dp_replicate > 1;
}
int exchanging(const Parallel& parallel) {
  return has_two_levels(parallel) ? parallel.dp_replicate
                                  : parallel.dp_shard * parallel.dp_replicate;
}

codec::Codec codec_of(const std::string& text, const std::string& seen, std::string_view more) {
  try {
    return codec::parse(text);
  } catch (const Error&) {
    fail(ErrorKind::kUsage, "{}: no such codec; choose bf16, q8, q4 or f4{}", seen, more);
  }
}

// Codecs of what no residual follows.
void check_plain(const std::string& text, const std::string& seen, std::string_view more = {}) {
  const codec::Codec codec = codec_of(text, seen, more);
  if (codec::is_integer(codec))
    fail(ErrorKind::kUsage,
         "{}: codec {} adds codes of several senders, and here is one; choose bf16, q8, q4 or f4",
         seen, text);
  if (!codec::is_plain(codec))
    fail(ErrorKind::kUsage,
         "{}: codec {} needs residuals, which only gradients of senders have; choose bf16, q8, q4 "
         "or f4",
         seen, text);
}

void check_codecs(const Network& network) {
  const auto [text, residual, residuals, back, warmup] = sum_codecs(network);
  const codec::Codec codec =
      codec_of(text, "network.codec=" + network.codec,
               fmt::format(", alone or with the type of residuals, such as q4:bf16, or i8x, i4x, "
                           "sign:fp32, topk:SHARE:BITS:fp32, randk:SHARE:BITS, lowrank:RANK or "
                           "lowrank:RANK:STEPS, whose first STEPS are not coded. SHARE is up to 1, "
                           "BITS 1 to 8, 16 or 32, RANK 1 to {}. /CODEC is that of the way back",
                           codec::kMostRank));
  if (codec::needs_residual(codec) && !residual)
    fail(ErrorKind::kUsage,
         "network.codec={}: this codec diverges without residuals; set network.codec={}:fp32, or "
         "choose bf16, q8, q4 or f4",
         text, text);
  if (network.codec.ends_with('/'))
    fail(ErrorKind::kUsage, "network.codec={}: / needs the codec of the way back, such as q8",
         network.codec);
  if (codec::is_low_rank(codec) && !back.empty())
    fail(ErrorKind::kUsage,
         "network.codec={}: factors are sums on their way there and back; leave out /{}",
         network.codec, back);
  if (codec::is_low_rank(codec) && residuals > 0)
    fail(ErrorKind::kUsage,
         "network.codec={}: every sender keeps a residual at low rank; leave out the number {}",
         network.codec, residuals);
  if (!back.empty()) check_plain(back, "network.codec=" + network.codec);
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
  if (job.run.device == Device::kCuda) refuse(job, "run.device=cuda", "run.device=cpu");
  const Precision& precision = job.precision;
  if (precision.numerics != Numerics::kCanonical)
    refuse(job, "precision.numerics=fast", "precision.numerics=canonical");
  if (precision.grads != DType::kF32)
    refuse(job, fmt::format("precision.grads={}", name(precision.grads.value())),
           "precision.grads=fp32");
  if (job.offload.grads != Tier::kNone) refuse(job, "offload.grads", "offload.grads=none");
  if (job.offload.optimizer != Tier::kNone && sum_codecs(job.network).residual)
    refuse(job, "offload.optimizer", "offload.optimizer=none, since residuals stay in memory");
}

[[noreturn]] void wrong_residuals(const Job& job, const std::string& needed) {
  fail(ErrorKind::kUsage, "network.codec={}: {} residuals of network.senders={}; set {}",
       job.network.codec, residuals(job), senders(job), needed);
}

// ZeRO-2 and 3 without replicas: each micro-batch has senders, blocks of neighbouring shards.
void check_each(const Job& job) {
  const int shards = job.parallel.dp_shard, count = senders(job);
  const std::string seen =
      fmt::format("parallel.zero={}, which reduces every micro-batch", job.parallel.zero);
  const std::string out =
      "parallel.zero=1, or parallel.dp_replicate hosts with their ranks as shards";
  if (sums_at_low_rank(job)) refuse(job, seen, out);
  if (const SumCodecs codecs = sum_codecs(job.network); !codecs.back.empty())
    refuse(job, seen,
           fmt::format("{}, because no sum is sent back, or {}",
                       job.network.codec.substr(0, job.network.codec.find('/')), out));
  if (sum_group(job) > 1)
    refuse(job, fmt::format("{} in groups of {}", seen, sum_group(job)),
           fmt::format("precision.group=1, or {}", out));
  if (!std::has_single_bit(static_cast<unsigned>(shards)))
    refuse(job, fmt::format("{}, over parallel.dp_shard={}", seen, shards),
           fmt::format("a power of two of shards, or {}", out));
  const std::int64_t each = accumulation(job);
  if (count % each != 0 || count / each > shards || shards % (count / each) != 0)
    fail(ErrorKind::kUsage,
         "network.senders={}: parallel.zero={} codes each of {} micro-batches by blocks of "
         "parallel.dp_shard={} ranks; set {} times a power of two up to {}",
         count, job.parallel.zero, each, shards, each, shards);
  if (residuals(job) % (count / each) != 0 || (residuals(job) > 0 && count % residuals(job) != 0))
    wrong_residuals(job, fmt::format("a multiple of the {} senders of each micro-batch that "
                                     "divides {}",
                                     count / each, count));
}

void check_gather(const Job& job) {
  const auto wrong = [&](const std::string& seen, const std::string& needed) {
    fail(ErrorKind::kUsage, "network.gather={} with {}: needs {}, or network.gather=none",
         job.network.gather, seen, needed);
  };
  const Parallel& parallel = job.parallel;
  const auto [text, within] = gather_codec(job.network);
  check_plain(text, "network.gather=" + job.network.gather,
              ", alone or with ranks of a host that keep the codes, such as q8:2");
  if (codec::parse(text).stochastic)
    fail(ErrorKind::kUsage, "network.gather={}: parameters are rounded to nearest; choose q8 or q4",
         job.network.gather);
  for (const auto& [key, degree] : {std::pair{"tp", parallel.tp}, std::pair{"cp", parallel.cp}})
    if (degree > 1)
      wrong(fmt::format("parallel.{}={}", key, degree), fmt::format("parallel.{}=1", key));
  if (within > 0 && (parallel.zero < 3 || parallel.dp_shard % within != 0))
    wrong(
        fmt::format("parallel.zero={} and parallel.dp_shard={}", parallel.zero, parallel.dp_shard),
        fmt::format("parallel.zero=3 and a multiple of {} shards to keep codes among {} ranks, or "
                    "network.gather={}",
                    within, within, text));
  if (job.run.device == Device::kCuda) wrong("run.device=cuda", "run.device=cpu");
  if (job.precision.master != DType::kF32)
    wrong(fmt::format("precision.master={}", name(job.precision.master.value())),
          "precision.master=fp32");
  if (job.offload.optimizer != Tier::kNone) wrong("offload.optimizer", "offload.optimizer=none");
  if (job.offload.params != Tier::kNone) wrong("offload.params", "offload.params=none");
}

void check_senders(const Job& job) {
  if (codes_each_micro_batch(job)) return check_each(job);
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
  if (sums_at_low_rank(job) && ranks > 1 &&
      !std::has_single_bit(static_cast<unsigned>(count / ranks)))
    wrong(
        fmt::format("network.codec={} adds the factors of {} senders on each of {} ranks, which "
                    "needs a power of two of them; set a power of two times {}",
                    job.network.codec, count / ranks, ranks, ranks));
  if (sum_codecs(job.network).residuals == 0) return;
  if (count % residuals(job) != 0)
    wrong_residuals(job, fmt::format("a divisor of {}, such as {}", count, count));
  if (residuals(job) < count && ranks > 1)
    wrong_residuals(job, fmt::format("{} on {} ranks, whose senders code at the same time, or use "
                                     "one rank or parallel.zero=2 without replicas",
                                     count, ranks));
}

// Senders that share exponents, and so code at the same time.
void check_integers(const Job& job) {
  const SumCodecs codecs = sum_codecs(job.network);
  const codec::Codec codec = codec::parse(codecs.codec);
  if (!codec::is_integer(codec)) return;
  if (senders(job) > codec::most_senders(codec))
    fail(ErrorKind::kUsage,
         "network.senders={}: a sum of so many codes of {} needs more than 32 bits; set at most {}",
         senders(job), codecs.codec, codec::most_senders(codec));
  if (codes_each_micro_batch(job))
    refuse(job, fmt::format("parallel.zero={}, which reduces every micro-batch", job.parallel.zero),
           "parallel.zero=1, parallel.dp_replicate hosts with their ranks as shards");
  if (codecs.residuals > 0 && residuals(job) != senders(job))
    wrong_residuals(job, fmt::format("{}, because senders share exponents and code at the same "
                                     "time, or leave the number out",
                                     senders(job)));
}

void check_algorithm(const Job& job) {
  const algorithm::Kind kind = job.network.algorithm;
  if (kind == algorithm::Kind::kAuto) return;
  if (job.run.device == Device::kCuda)
    fail(ErrorKind::kUsage,
         "network.algorithm={} with run.device=cuda: GPUs add by NCCL; set network.nccl, such as "
         "algo=Ring, or leave it out",
         name(kind));
  const int ranks = job.parallel.dp_shard * job.parallel.dp_replicate * job.parallel.cp;
  if (kind != algorithm::Kind::kHalving || std::has_single_bit(static_cast<unsigned>(ranks)))
    return;
  fail(ErrorKind::kUsage,
       "network.algorithm=halving needs a power of two of data- and context-parallel ranks, not "
       "{}; choose tree, or leave it out",
       ranks);
}

// The number from position `begin` to the end of the text: false if there is none from `least` on.
template <typename Number>
bool read_number(const std::string& text, std::size_t begin, Number least, Number& number) {
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data() + begin, end, number);
  return error == std::errc() && stop == end && number >= least;
}

// Residuals in fp32 unless the type is given, and "lowrank:RANK:STEPS".
void read_low_rank(SumCodecs& parts) {
  if (!parts.codec.starts_with(kLowRank)) return;
  if (!parts.residual) parts.residual = DType::kF32;
  const std::size_t colon = parts.codec.find(':', kLowRank.size());
  std::int64_t steps = 0;
  if (colon == std::string::npos || !read_number(parts.codec, colon + 1, std::int64_t{0}, steps))
    return;
  parts.warmup = steps;
  parts.codec.resize(colon);
}

}  // namespace

bool codes_sums(const Job& job) { return job.network.codec != Network().codec; }
bool codes_gathers(const Job& job) { return job.network.gather != Network().gather; }

SumCodecs sum_codecs(const Network& network) {
  const std::size_t slash = network.codec.find('/');
  SumCodecs parts{
      .codec = network.codec.substr(0, slash), .residual = {}, .back = {}, .warmup = {}};
  if (slash != std::string::npos) parts.back = network.codec.substr(slash + 1);
  for (const DType type : {DType::kBF16, DType::kF32}) {
    const std::string part = fmt::format(":{}", name(type));
    const std::size_t at = parts.codec.rfind(part);
    if (at == std::string::npos) continue;
    const std::size_t end = at + part.size();
    if (end == parts.codec.size() ||
        (parts.codec[end] == ':' && read_number(parts.codec, end + 1, 1, parts.residuals))) {
      parts.residual = type;
      parts.codec.resize(at);
    }
  }
  read_low_rank(parts);
  return parts;
}

GatherCodec gather_codec(const Network& network) {
  const std::string& text = network.gather;
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos) return {.codec = text};
  int ranks = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data() + colon + 1, end, ranks);
  if (error != std::errc() || stop != end || ranks < 1) return {.codec = text};
  return {.codec = text.substr(0, colon), .within = ranks};
}

bool codes_each_micro_batch(const Job& job) {
  const Parallel& parallel = job.parallel;
  return codes_sums(job) && parallel.zero >= 2 && parallel.dp_shard > 1 &&
         parallel.dp_replicate == 1;
}

int senders(const Job& job) {
  if (job.network.senders > 0) return static_cast<int>(job.network.senders);
  if (!codes_each_micro_batch(job)) return exchanging(job.parallel);
  // The ranks of a host, where these are known, are one sender of each micro-batch.
  const int within = std::clamp(gather_codec(job.network).within, 1, job.parallel.dp_shard);
  return static_cast<int>(accumulation(job)) * (job.parallel.dp_shard / within);
}

int residuals(const Job& job) {
  const SumCodecs codecs = sum_codecs(job.network);
  if (!codecs.residual) return 0;
  if (codecs.residuals > 0) return codecs.residuals;
  return codes_each_micro_batch(job) ? senders(job) / static_cast<int>(accumulation(job))
                                     : senders(job);
}

std::int64_t uncoded_steps(const Job& job) {
  if (!sums_at_low_rank(job)) return 0;
  return sum_codecs(job.network).warmup.value_or(job.run.steps / 10);
}

std::vector<std::string> network_notes(const Job& job) {
  std::vector<std::string> notes;
  if (const std::int64_t steps = uncoded_steps(job); steps > 0)
    notes.push_back(fmt::format("network.codec={}: sums of the first {} steps travel as they are",
                                job.network.codec, steps));
  if (codes_each_micro_batch(job))
    notes.push_back(fmt::format(
        "network.codec with parallel.zero={} sends codes of each of {} micro-batches; HSDP "
        "(parallel.dp_replicate=HOSTS, the ranks of a host as shards) sends them once a step, and "
        "gathers inside hosts",
        job.parallel.zero, accumulation(job)));
  return notes;
}

void check_network(const Job& job) {
  check_nccl(job);
  check_algorithm(job);
  if (codes_gathers(job)) check_gather(job);
  if (!codes_sums(job)) {
    if (job.network.senders != Network().senders)
      fail(ErrorKind::kUsage,
           "network.senders is set with network.codec=none, which codes nothing; choose a codec or "
           "leave it out");
    return;
  }
  check_codecs(job.network);
  check_layout(job);
  check_integers(job);
  check_senders(job);
}

}  // namespace trireme::config
