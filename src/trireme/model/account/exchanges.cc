#include "trireme/model/account/exchanges.h"

#include <utility>

#include "trireme/model/account/parts.h"

namespace trireme::model {
namespace {

using plan::Exchange;
using plan::NodeExchange;

NodeExchange over_tp(Exchange kind, std::int64_t bytes, int forward, int backward, int weight = 0) {
  return {.kind = kind,
          .axes = mesh::Axis::kTp,
          .bytes = bytes,
          .forward = forward,
          .backward = backward,
          .weight = weight};
}
NodeExchange over_cp(Exchange kind, std::int64_t bytes, int forward, int backward) {
  return {.kind = kind,
          .axes = mesh::Axis::kCp,
          .bytes = bytes,
          .forward = forward,
          .backward = backward};
}
NodeExchange of_part(std::string_view part, NodeExchange exchange) {
  exchange.part = part;
  return exchange;
}

}  // namespace

Exchanges::Exchanges(const Sizes& sizes, const PerRank& rank) : sizes_(sizes), rank_(rank) {
  activation_ = (sequence() ? sizes.rows * rank.tp : sizes.tokens) * sizes.d * sizes.element;
}

std::vector<NodeExchange> Exchanges::regions(const RegionCounts& counts) const {
  if (sequence())
    return {over_tp(Exchange::kAllGather, activation_, counts.opened, counts.closed_back,
                    counts.trained),
            over_tp(Exchange::kReduceScatter, activation_, counts.closed, counts.opened_back),
            of_part(kMlp, over_tp(Exchange::kAllGather, activation_, 0, counts.again))};
  if (rank_.tp > 1)
    return {over_tp(Exchange::kAllReduce, activation_, counts.closed, counts.opened_back)};
  return {};
}

std::vector<NodeExchange> Exchanges::row_numbers(int count, bool back) const {
  if (rank_.tp == 1) return {};
  return {over_tp(Exchange::kAllReduce, sizes_.tokens * sizes_.statistic, count, back * count)};
}

std::vector<NodeExchange> Exchanges::norms(int count) const {
  if (rank_.tp == 1 || count == 0) return {};
  return {over_tp(Exchange::kAllReduce, sizes_.d * sizes_.statistic, count, 0)};
}

std::vector<NodeExchange> Exchanges::embed() const {
  if (rank_.tp == 1) return {};
  if (!sequence()) return {over_tp(Exchange::kAllReduce, activation_, 1, 0)};
  return {over_tp(Exchange::kReduceScatter, activation_, 1, 0),
          over_tp(Exchange::kAllGather, activation_, 0, 1)};
}

std::vector<NodeExchange> Exchanges::head(const TrainedHead& head) const {
  if (rank_.tp == 1) return {};
  std::vector<NodeExchange> all = {
      over_tp(Exchange::kAllGather, 2 * rank_.tp * sizes_.tokens * sizes_.statistic, 1, 0)};
  if (sequence()) {
    all.push_back(over_tp(Exchange::kAllGather, activation_, 1, 0, head.weight));
    all.push_back(over_tp(Exchange::kReduceScatter, activation_, 0, head.normed()));
  } else {
    all.push_back(over_tp(Exchange::kAllReduce, activation_, 0, head.normed()));
  }
  return all;
}

// Keys and values, and in backward their gradients in the type of sums; or heads for tokens. Recomputed attention needs
// the keys and values of others once more, or sends its result once more.
std::vector<NodeExchange> Exchanges::attention() const {
  if (rank_.cp == 1) return {};
  const std::int64_t keys = 2 * sizes_.attention.tokens * sizes_.attention.kv;
  switch (rank_.context) {
    case config::ContextMethod::kRing: return ring(keys, rank_.cp);
    case config::ContextMethod::kAllGather:
      return {over_cp(Exchange::kAllGather, rank_.cp * keys * sizes_.element, 1, 1),
              over_cp(Exchange::kReduceScatter, rank_.cp * keys * sizes_.statistic, 0, 1),
              of_part(kAttention,
                      over_cp(Exchange::kAllGather, rank_.cp * keys * sizes_.element, 0, 1))};
    case config::ContextMethod::kUlysses: return heads(keys);
    case config::ContextMethod::kHierarchical: {
      std::vector<NodeExchange> all = heads(keys);
      for (const NodeExchange& one : ring(keys, rank_.cp / rank_.context_inner)) all.push_back(one);
      return all;
    }
  }
  return {};
}

std::vector<NodeExchange> Exchanges::ring(std::int64_t keys, int ranks) const {
  return {over_cp(Exchange::kSendRecv, keys * sizes_.element, ranks - 1, ranks - 1),
          over_cp(Exchange::kSendRecv, keys * sizes_.statistic, 0, ranks),
          of_part(kAttention, over_cp(Exchange::kSendRecv, keys * sizes_.element, 0, ranks - 1))};
}

std::vector<NodeExchange> Exchanges::heads(std::int64_t keys) const {
  const std::int64_t queries = sizes_.attention.tokens * sizes_.attention.q;
  std::vector<NodeExchange> all = {
      over_cp(Exchange::kAllToAll, (queries + keys) * sizes_.element, 1, 1),
      over_cp(Exchange::kAllToAll, queries * sizes_.element, 1, 1),
      of_part(kAttention, over_cp(Exchange::kAllToAll, queries * sizes_.element, 0, 1))};
  if (rank_.documents)  // where each token's begins
    all.push_back(over_cp(Exchange::kAllGather, sizes_.attention.tokens * 8, 1, 0));
  return all;
}

}  // namespace trireme::model
