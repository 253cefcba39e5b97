#include "bench/scoreboard/attention_rings.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "trireme/planner/cost/kernels.h"
#include "trireme/planner/hardware/cluster_file.h"
#include "trireme/planner/hardware/network.h"

namespace trireme::scoreboard {
namespace {

// benchmark/benchmark_(varlen_)kvpacked_func.py: Llama 3.1 8B's heads.
constexpr double kTokens = 8192, kWidth = 128;
constexpr double kQueries = kTokens * 32 * kWidth, kKeys = 2 * kTokens * 8 * kWidth;  // elements
constexpr double kHalf = 2, kFull = 4;                                                // bytes
constexpr double kBackward = 2.5;  // times forward's operations

// Tokens of each document that are one rank's: in rings it has a part of all, in order what comes to it.
using Documents = std::vector<double>;

std::vector<Documents> mixes(bool varlen) {
  if (!varlen) return {{8192}};
  return {{8192}, {256, 7392, 544}, {4096, 4096}, {3104, 3200, 1600, 160, 128}};
}

// Of queries that are the last of so many keys.
double seen(double queries, double keys) {
  return queries * (keys - queries) + queries * (queries + 1) / 2;
}

// At one turn of a ring: pairs of queries and keys, and bytes that operators between kernels move, each by itself. A result joins
// the sum by four of them in fp32: converted, compared, weighed and added.
struct Turn {
  double pairs = 0, joined = 0, summed = 0;  // `summed`: in backward, of gradients
};
constexpr double kConverted = kHalf + kFull,
                 kJoined = kConverted + 3 * kFull + 2 * kFull + 3 * kFull;
constexpr double kAdded = 2 * kFull + kHalf, kCopied = 2 * kFull;

double pairs_at(Sharing sharing, double tokens, bool own) {
  if (own || sharing == Sharing::kStripes) return seen(tokens, tokens);
  return tokens * tokens / (sharing == Sharing::kZigzag ? 2 : 1);  // half the queries or the keys
}

// Keys of ranks before this one are seen by all queries; of later ones by none, by the later half of a zigzag, or, of stripes, by
// all but one. What is of a part goes back into the sum; a part of several documents is gathered by a mask.
Turn turn_of(Sharing sharing, const Documents& documents, int rank, int step) {
  const bool own = step == 0, part = step > rank, several = documents.size() > 1;
  if (sharing == Sharing::kRing && part) return {};
  Turn turn;
  for (const double tokens : documents) turn.pairs += pairs_at(sharing, tokens, own);
  const double sum = own ? kConverted : kAdded, result = own ? kConverted : kJoined;
  turn.joined = result * kQueries;
  turn.summed = sum * (kQueries + kKeys);
  if (sharing == Sharing::kStripes && part) turn.joined += kCopied * kQueries;
  if (sharing == Sharing::kZigzag && part) {
    turn.joined = (kJoined + kCopied * (several ? 2 : 1)) * kQueries / 2;
    turn.summed -= kAdded * kQueries / 2;
  }
  if (sharing == Sharing::kZigzag && !part && !own && several) turn.joined += 2 * kHalf * kKeys / 2;
  return turn;
}

// Pairs of a rank whose tokens are in order among those of all ranks.
double pairs_in_order(const Documents& documents, int rank, int ranks) {
  const double first = rank * kTokens, last = first + kTokens;
  double pairs = 0, begin = 0;
  for (const double each : documents) {
    const double end = begin + each * ranks;
    const double from = std::max(begin, first), to = std::min(end, last);
    if (to > from) pairs += seen(to - from, to - begin);
    begin = end;
  }
  return pairs;
}

double alone_pairs(bool varlen) {
  double pairs = 0;
  for (const Documents& documents : mixes(varlen))
    for (const double tokens : documents) pairs += seen(tokens, tokens);
  return pairs / static_cast<double>(mixes(varlen).size());
}

class Host {
 public:
  Host(const Cluster& cluster, const Attending& run, double alone)
      : cluster_(cluster), run_(run), network_(cluster, mesh::Mesh({.cp = run.ranks})) {
    pair_ = alone / alone_pairs(run.varlen) / (run.backward ? 1 + kBackward : 1);
  }

  double ring(const Documents& documents, int rank) const {
    double sum = moved(kConverted * kQueries);
    if (run_.backward) sum += moved(kConverted * (kQueries + kKeys)) + hop(kFull * kKeys);
    for (int step = 0; step < run_.ranks; ++step) {
      const Turn turn = turn_of(run_.sharing, documents, rank, step);
      const bool sends = step + 1 < run_.ranks;
      sum += std::max(turn.pairs * pair_ + moved(turn.joined), sends ? hop(kHalf * kKeys) : 0);
      if (run_.backward)
        sum += std::max(turn.pairs * pair_ * kBackward + moved(turn.summed),
                        hop((sends ? kHalf : 0) * kKeys + kFull * kKeys));
    }
    return sum;
  }

  // Heads by halves, each waits for its keys; results are put together.
  double gathered(const Documents& documents, int rank) const {
    const double keys = kHalf * kKeys * run_.ranks;
    const auto exchange = [&](plan::Exchange kind) {
      return network_.seconds(kind, mesh::Axis::kCp, keys);
    };
    const double work = pairs_in_order(documents, rank, run_.ranks) * pair_;
    double sum = work + exchange(plan::Exchange::kAllGather) + moved(2 * kHalf * kQueries);
    if (run_.backward)
      sum += work * kBackward + exchange(plan::Exchange::kAllGather) + moved(keys) +
             exchange(plan::Exchange::kReduceScatter);
    return sum;
  }

  // Ranks wait for the slowest.
  double seconds() const {
    const std::vector<Documents> all = mixes(run_.varlen);
    double sum = 0;
    for (const Documents& documents : all) {
      double slowest = 0;
      for (int rank = 0; rank < run_.ranks; ++rank)
        slowest = std::max(slowest, run_.sharing == Sharing::kGathered ? gathered(documents, rank)
                                                                       : ring(documents, rank));
      sum += slowest;
    }
    return sum / static_cast<double>(all.size());
  }

 private:
  double moved(double bytes) const { return planner::seconds(cluster_.gpu, stream(bytes)); }
  double hop(double bytes) const {
    return network_.seconds(plan::Exchange::kSendRecv, mesh::Axis::kCp, bytes);
  }

  const Cluster& cluster_;
  const Attending& run_;
  Network network_;
  double pair_;  // seconds, in forward
};

}  // namespace

double attending_seconds(const Cluster& cluster, const Attending& run, double alone) {
  return Host(cluster, run, alone).seconds();
}

double attending_work(const Attending& run) {
  double sum = 0;
  const std::vector<Documents> all = mixes(run.varlen);
  for (const Documents& documents : all) {
    double most = 0;
    for (int rank = 0; rank < run.ranks; ++rank) {
      double pairs = 0;
      for (int step = 0; step < run.ranks && run.sharing != Sharing::kGathered; ++step)
        pairs += turn_of(run.sharing, documents, rank, step).pairs;
      if (run.sharing == Sharing::kGathered) pairs = pairs_in_order(documents, rank, run.ranks);
      most = std::max(most, pairs);
    }
    sum += most;
  }
  return sum / static_cast<double>(all.size()) / alone_pairs(run.varlen);
}

namespace {

std::optional<Sharing> sharing_of(const std::string& method) {
  if (method == "ring") return Sharing::kRing;
  if (method == "zigzag") return Sharing::kZigzag;
  if (method == "stripe") return Sharing::kStripes;
  if (method == "llama3_attn") return Sharing::kGathered;
  return std::nullopt;
}

// The row has what one GPU reaches alone, an `ideal` iteration's rate: what is forecast is how much of that is kept.
Case attention_ring_case(const Csv& csv, std::size_t row) {
  static const std::array<Cluster, 2> kHosts = {find_cluster("hgx-h800"), find_cluster("dgx-a100")};
  const std::string &setup = csv.text(row, "setup"), &method = csv.text(row, "method");
  Case one{.row = fmt::format("{}, {}", method, setup),
           .quantity = "attention, of ideal",
           .unit = "%",
           .group = setup,
           .lines = {csv.line(row)}};
  const std::optional<Sharing> sharing = sharing_of(method);
  const auto has = [&](const char* word) { return setup.find(word) != std::string::npos; };
  const auto ideal = csv.number(row, "reference"), rate = csv.number(row, "value");
  if (!sharing) one.unscored = "a method of which nothing is known here";
  if (!ideal || !rate || *ideal <= 0) one.unscored = "no rate, or none of one GPU alone beside it";
  if (!has("xH800 ") && !has("xA100 ")) csv.unknown(row, "setup");
  if (has("varlen") == has("batch")) csv.unknown(row, "setup");
  if (!one.unscored.empty()) return one;
  const Attending run{.sharing = *sharing,
                      .varlen = has("varlen"),
                      .backward = has("fwd+bwd"),
                      .ranks = csv.count(row, "gpus")};
  const Cluster& host = kHosts[has("xA100 ") ? 1 : 0];
  one.measured = 100 * *rate / *ideal;
  one.forecast = 100 / *ideal / attending_seconds(host, run, 1 / *ideal / run.ranks);
  one.null = 100 * run.ranks / attending_work(run);
  return one;
}

}  // namespace

std::vector<Case> attention_ring_cases(const Csv& csv) {
  std::vector<Case> all;
  for (std::size_t row = 0; row < csv.size(); ++row)
    if (csv.text(row, "experiment") == "ring-flash-attention")
      all.push_back(attention_ring_case(csv, row));
  return all;
}

}  // namespace trireme::scoreboard
