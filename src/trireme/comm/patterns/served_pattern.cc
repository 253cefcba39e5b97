#include "trireme/comm/patterns/served_pattern.h"

#include <memory>
#include <utility>

#include "trireme/comm/operation.h"
#include "trireme/comm/patterns/stages.h"

namespace trireme::comm {
namespace {

std::vector<int> with_servers(int own, const std::vector<algorithm::Server>& servers) {
  std::vector<int> ranks = {own};
  for (const algorithm::Server& server : servers) ranks.push_back(server.rank);
  return ranks;
}

}  // namespace

ServedPattern::ServedPattern(Transport& transport, const std::vector<int>& ranks, int rank,
                             std::vector<algorithm::Server> servers)
    : Pattern(transport, ranks, rank),
      servers_(std::move(servers)),
      to_servers_(transport, with_servers(ranks[rank], servers_), 0) {}

void ServedPattern::add_to_all(std::byte* data, const Slices& slices, const Reduction& reduction) {
  const std::size_t bytes = slices.back().begin + slices.back().bytes;
  const bool mean = reduction.divisor > 1;
  stamp_.reduce = reduction.max ? Reduce::kMax : mean ? Reduce::kAvg : Reduce::kSum;
  exchange(data, bytes / width(reduction.from), reduction.from);
}

void ServedPattern::add_whole(const std::byte* data, std::size_t bytes, const Reduction& reduction,
                              std::byte* out) {
  if (bytes <= kSmallBytes) return Pattern::add_whole(data, bytes, reduction, out);
  const std::size_t count = bytes / width(reduction.from);
  stamp_.reduce = reduction.max ? Reduce::kMax : Reduce::kSum;
  sums_.assign(data, data + bytes);
  exchange(sums_.data(), count, reduction.from);
  const void* const sums[] = {sums_.data()};
  void* const outs[] = {out};
  tree_reduce(outs, sums, static_cast<std::int64_t>(count), reduction);
}

void ServedPattern::exchange(std::byte* data, std::size_t count, DType type) {
  stamp_.verb = Verb::kAllReduce;
  stamp_.type = type;
  to_servers_.begin(stamp_);
  to_servers_.go(Way::kThereAndBack);
  std::vector<std::unique_ptr<Outgoing>> sent;
  std::size_t begin = 0;
  int server = 1;
  for (const std::int64_t share : algorithm::shares(static_cast<std::int64_t>(count), servers_)) {
    const std::size_t bytes = static_cast<std::size_t>(share) * width(type);
    if (bytes > 0) sent.push_back(to_servers_.post(data + begin, bytes, server));
    begin += bytes;
    ++server;
  }
  for (const auto& message : sent) message->finish();
}

}  // namespace trireme::comm
