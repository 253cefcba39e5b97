#include "trireme/config/resolve/coded_sums.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "trireme/base/error.h"
#include "trireme/config/resolve/resolve.h"

namespace trireme::config {
namespace {

constexpr std::string_view kLowRank = "lowrank:";

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

codec::Codec codec_of(const std::string& text, const std::string& seen, std::string_view more) {
  try {
    return codec::parse(text);
  } catch (const Error&) {
    fail(ErrorKind::kUsage, "{}: no such codec; choose bf16, q8, q4 or f4{}", seen, more);
  }
}

codec::Codec plain_codec(const std::string& text, const std::string& seen, std::string_view more) {
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
  return codec;
}

bool codes_sums(const Job& job) { return job.network.codec != Network().codec; }
bool sums_at_low_rank(const Job& job) { return job.network.codec.starts_with(kLowRank); }
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
  if (!read_number(text, colon + 1, 1, ranks)) return {.codec = text};
  return {.codec = text.substr(0, colon), .within = ranks};
}

bool has_two_levels(const Parallel& parallel) {
  return parallel.zero >= 1 && parallel.dp_shard > 1 && parallel.dp_replicate > 1;
}

int coding_ranks(const Parallel& parallel) {
  return has_two_levels(parallel) ? parallel.dp_replicate
                                  : parallel.dp_shard * parallel.dp_replicate;
}

bool codes_each_micro_batch(const Job& job) {
  const Parallel& parallel = job.parallel;
  return codes_sums(job) && parallel.zero >= 2 && parallel.dp_shard > 1 &&
         parallel.dp_replicate == 1;
}

int senders(const Job& job) {
  if (job.network.senders > 0) return static_cast<int>(job.network.senders);
  if (!codes_each_micro_batch(job)) return coding_ranks(job.parallel);
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

}  // namespace trireme::config
