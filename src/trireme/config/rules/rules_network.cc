// Sums and gathers between ranks: NCCL, algorithms, codecs and islands.
#include <bit>

#include "trireme/base/error.h"
#include "trireme/comm/codec/integer.h"
#include "trireme/config/resolve/coded_sums.h"
#include "trireme/config/resolve/outer_steps.h"
#include "trireme/config/resolve/resolve_towers.h"
#include "trireme/config/rules/rule_lists.h"
#include "trireme/config/rules/templates.h"
#include "trireme/config/values/nccl_settings.h"

namespace trireme::config {
namespace {

bool is_power(std::int64_t number) {
  return std::has_single_bit(static_cast<std::uint64_t>(number));
}

void check_gather_codec(const Job& job) {
  const std::string seen = "network.gather=" + job.network.gather;
  if (plain_codec(gather_codec(job.network).codec, seen,
                  ", alone or with ranks of a host that keep the codes, such as q8:2")
          .stochastic)
    fail(ErrorKind::kUsage, "{}: parameters are rounded to nearest; choose q8 or q4", seen);
}
bool keeps_codes(const Job& job) { return gather_codec(job.network).within > 0; }

void check_codec(const Job& job) {
  const auto [text, residual, residuals, back, warmup] = sum_codecs(job.network);
  const std::string seen = "network.codec=" + job.network.codec;
  const codec::Codec codec = codec_of(
      text, seen,
      fmt::format(", alone or with the type of residuals, such as q4:bf16, or i8x, i4x, "
                  "sign:fp32, topk:SHARE:BITS:fp32, randk:SHARE:BITS, lowrank:RANK or "
                  "lowrank:RANK:STEPS, whose first STEPS are not coded. SHARE is up to 1, BITS 1 "
                  "to 8, 16 or 32, RANK 1 to {}. /CODEC is that of the way back",
                  codec::kMostRank));
  if (codec::needs_residual(codec) && !residual)
    fail(ErrorKind::kUsage,
         "network.codec={}: this codec diverges without residuals; set network.codec={}:fp32, or "
         "choose bf16, q8, q4 or f4",
         text, text);
  if (seen.ends_with('/'))
    fail(ErrorKind::kUsage, "{}: / needs the codec of the way back, such as q8", seen);
  if (codec::is_low_rank(codec) && !back.empty())
    fail(ErrorKind::kUsage, "{}: factors are sums on their way there and back; leave out /{}", seen,
         back);
  if (codec::is_low_rank(codec) && residuals > 0)
    fail(ErrorKind::kUsage,
         "{}: every sender keeps a residual at low rank; leave out the number {}", seen, residuals);
  if (!back.empty()) plain_codec(back, seen);
}

[[noreturn]] void wrong_residuals(const Job& job, const std::string& needed) {
  fail(ErrorKind::kUsage, "network.codec={}: {} residuals of network.senders={}; set {}",
       job.network.codec, residuals(job), senders(job), needed);
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
  if (codecs.residuals > 0 && residuals(job) != senders(job))
    wrong_residuals(job, fmt::format("{}, because senders share exponents and code at the same "
                                     "time, or leave the number out",
                                     senders(job)));
}

// Sums of all micro-batches, which ZeRO-2 and 3 without replicas do not code.
bool codes_whole_sums(const Job& job) {
  return codes_each_micro_batch(job) &&
         (sums_at_low_rank(job) || codec::is_integer(codec::parse(sum_codecs(job.network).codec)));
}

// Each micro-batch has senders, blocks of neighbouring shards.
void check_senders_of_each(const Job& job) {
  const int shards = job.parallel.dp_shard, count = senders(job);
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

void check_senders(const Job& job) {
  const Parallel& parallel = job.parallel;
  const int count = senders(job), ranks = coding_ranks(parallel);
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
  const std::int64_t sums = accumulation(job) * dp(job) / sum_group(job);
  if (sums % count != 0 || !is_power(sums / count))
    wrong(
        fmt::format("a step adds {} sums of micro-batches, and each sender needs a power of two "
                    "of them; change network.senders or run.global_batch",
                    sums));
  if (sums_at_low_rank(job) && ranks > 1 && !is_power(count / ranks))
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

bool codes_once(const Job& job) { return codes_sums(job) && !codes_each_micro_batch(job); }
void resolve_senders(Job& job, const Given&) {
  if (codes_sums(job)) job.network.senders = senders(job);
}

OuterSettings outer(const Job& job) {
  return outer_settings(job.network).value_or(OuterSettings());
}
bool codes_weights(const Job& job) { return !outer(job).codec.empty(); }

Rule for_islands(std::string_view id, std::initializer_list<std::string_view> needed,
                 std::string_view reason = "") {
  return {id, needs("network.outer", needed, reason)};
}

}  // namespace

std::vector<Rule> network_rules() {
  const Number within("the ranks of {network.gather}",
                      [](const Job& job) { return gather_codec(job.network).within; });
  return {
      {"nccl", [](const Job& job) { nccl_variables(job.network.nccl); }},
      {"nccl-device", needs("network.nccl", {"run.device=cuda"}, "its ranks do not use NCCL",
                            "leave network.nccl out")},
      {"algorithm-device", refused("network.algorithm with run.device=cuda", "GPUs add by NCCL",
                                   "set network.nccl, such as algo=Ring, or leave it out")},
      {"halving",
       refused("network.algorithm=halving",
               "{parallel.dp_replicate} x {parallel.dp_shard} x {parallel.cp} ranks are no power "
               "of two",
               "choose tree, or leave it out"),
       [](const Job& job) { return !is_power(std::int64_t{dp(job)} * job.parallel.cp); }},
      {"gather-codec", check_gather_codec, codes_gathers},
      {"gather", needs("network.gather",
                       {"parallel.tp=1", "parallel.cp=1", "run.device=cpu", "precision.master=fp32",
                        "offload.optimizer=none", "offload.params=none"})},
      {"gather-zero",
       needs("network.gather", {"parallel.zero=3"}, "codes are kept for later gathers of ZeRO-3",
             "leave the ranks out of network.gather"),
       keeps_codes},
      {"gather-shards", multiple_of("parallel.dp_shard", within), keeps_codes},
  };
}

std::vector<Rule> codec_rules() {
  return {
      {"senders-off", refused("network.senders with network.codec=none", "no sum is coded",
                              "choose a codec, or leave it out")},
      {"codec-text", check_codec, codes_sums},
      {"codec", needs("network.codec", {"parallel.tp=1", "parallel.cp=1", "parallel.pp=1",
                                        "run.device=cpu", "precision.numerics=canonical",
                                        "precision.grads=fp32", "offload.grads=none"})},
      {"codec-residuals",
       needs("network.codec", {"offload.optimizer=none"}, "residuals stay in memory"),
       [](const Job& job) { return sum_codecs(job.network).residual.has_value(); }},
      {"integers", check_integers, codes_sums},
      {"codec-whole-sums",
       refused("network.codec with parallel.zero", "ZeRO-2 and 3 reduce every micro-batch",
               "set parallel.zero=1, or parallel.dp_replicate to hosts with their ranks as shards"),
       codes_whole_sums},
      {"codec-back",
       refused("network.codec with parallel.zero",
               "ZeRO-2 and 3 reduce every micro-batch and send no sum back",
               "leave out the codec after /, or set parallel.zero=1"),
       [](const Job& job) {
         return codes_each_micro_batch(job) && !sum_codecs(job.network).back.empty();
       }},
      {"codec-groups",
       [](const Job& job) {
         fail(ErrorKind::kUsage,
              "network.codec={} with parallel.zero={}: ZeRO-2 and 3 reduce every micro-batch, and "
              "precision.group={} adds {} of them; set precision.group=1 or parallel.zero=1",
              job.network.codec, job.parallel.zero, job.precision.group, sum_group(job));
       },
       [](const Job& job) { return codes_each_micro_batch(job) && sum_group(job) > 1; }},
      {"codec-shards",
       refused("network.codec with parallel.zero",
               "ZeRO-2 and 3 code blocks of shards, and {parallel.dp_shard} is no power of two",
               "change it, or set parallel.zero=1"),
       [](const Job& job) {
         return codes_each_micro_batch(job) && !is_power(job.parallel.dp_shard);
       }},
      {"senders-of-each", check_senders_of_each, codes_each_micro_batch},
      {"senders", check_senders, codes_once, resolve_senders},
  };
}

std::vector<Rule> island_rules() {
  return {
      {"islands-loss",
       refused("network.outer", "the loss of {model.family} compares the samples of all islands",
               "train without islands"),
       [](const Job& job) { return outer(job).islands > 1 && couples_batch(job); }},
      {"islands-spikes",
       refused("run.spikes with network.outer", "a return to a checkpoint would repeat merges",
               "leave run.spikes out, or set network.outer=none")},
      for_islands("islands-codec", {"network.codec=none"}, "it codes sums over all replicas"),
      for_islands("islands-states", {"optim.from_weights=false"},
                  "its states are not those of islands"),
      for_islands("islands-trainable", {"checkpoint.trainable_only=false"}),
      for_islands("islands-offload", {"offload.optimizer=none", "offload.params=none"},
                  "merged weights stay in memory"),
      for_islands("islands-master", {"precision.master=fp32|fp64"}),
      {"islands-direction",
       needs("network.outer", {"parallel.tp=1"}, "it cuts layers whose norms merge:direction needs",
             "merge:mean"),
       [](const Job& job) { return outer(job).direction; }},
      {"islands-coded",
       needs("network.outer", {"precision.master=fp32", "run.device=cpu"},
             "codecs of weights take fp32 on CPUs", "leave its codec out"),
       codes_weights},
  };
}

}  // namespace trireme::config
