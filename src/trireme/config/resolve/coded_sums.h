// Coded sums of gradients and coded gathers of parameters: parts of their keys, and what follows from them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/comm/codec/codec.h"
#include "trireme/config/job.h"

namespace trireme::config {

// The codec of a text. Throws Error{kUsage} that begins with `seen`; `more` are choices beyond plain codecs.
codec::Codec codec_of(const std::string& text, const std::string& seen, std::string_view more);
// The same for sums and parameters that no residual follows.
codec::Codec plain_codec(const std::string& text, const std::string& seen,
                         std::string_view more = {});

bool codes_sums(const Job& job);
bool sums_at_low_rank(const Job& job);
bool codes_gathers(const Job& job);
// Parts of network.codec.
struct SumCodecs {
  std::string codec;
  std::optional<DType> residual;  // in which each sender keeps what its codes left out
  int residuals = 0;              // number of them; 0: one for every sender that codes at a time
  std::string back;               // codec of the whole sum on its way back; empty: none
  std::optional<std::int64_t> warmup;  // lowrank: first steps of a run, whose sums are not coded
};
SumCodecs sum_codecs(const Network& network);
// Parts of network.gather: its codec, and the ranks of a host that keep the codes (0: none do).
struct GatherCodec {
  std::string codec;
  int within = 0;
};
GatherCodec gather_codec(const Network& network);
// Whether sums are added over shards before replicas code them.
bool has_two_levels(const Parallel& parallel);
// Ranks that exchange codes: replicas of sharded units, else all data-parallel ranks.
int coding_ranks(const Parallel& parallel);
// Senders of a resolved job that codes sums, and their residuals: 0 where they keep none.
int senders(const Job& job);
int residuals(const Job& job);
// First steps of a resolved job whose sums travel as they are, whatever the codec: 10 % of them at low rank unless given.
std::int64_t uncoded_steps(const Job& job);

// Whether shards are exchanged at every micro-batch below all other sums, so that each micro-batch has senders.
bool codes_each_micro_batch(const Job& job);

// What a user should know of a resolved job's network, one sentence each.
std::vector<std::string> network_notes(const Job& job);

}  // namespace trireme::config
