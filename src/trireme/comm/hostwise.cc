#include "trireme/comm/hostwise.h"

#include <algorithm>
#include <bit>

#include "trireme/comm/copy_bytes.h"

namespace trireme::comm {
namespace {

// What lies between `begin` and `end` of each slice.
Slices cut(const Slices& slices, std::size_t begin, std::size_t end) {
  Slices parts;
  for (const Slice& slice : slices) {
    const std::size_t from = std::min(begin, slice.bytes), to = std::min(end, slice.bytes);
    parts.push_back({slice.begin + from, to - from});
  }
  return parts;
}

std::size_t longest(const Slices& slices) {
  return std::ranges::max(slices, {}, &Slice::bytes).bytes;
}

}  // namespace

std::optional<Levels> levels_of(const std::vector<int>& ranks, int position,
                                const std::vector<int>& hosts) {
  const auto host = [&](std::size_t at) { return hosts[ranks[at]]; };
  std::size_t block = 0;
  while (block < ranks.size() && host(block) == host(0)) ++block;
  const bool even = ranks.size() % block == 0 && std::has_single_bit(block);
  if (!even || block == 1 || block == ranks.size()) return std::nullopt;
  const std::size_t own = static_cast<std::size_t>(position) / block, place = position % block;
  Levels levels{{}, {}, static_cast<int>(place), static_cast<int>(own)};
  std::vector<int> seen;
  for (std::size_t at = 0; at < ranks.size(); ++at) {
    if (host(at) != host(at / block * block)) return std::nullopt;
    if (at % block == 0) seen.push_back(host(at));
    if (at / block == own) levels.inside.push_back(ranks[at]);
    if (at % block == place) levels.across.push_back(ranks[at]);
  }
  std::ranges::sort(seen);
  if (std::ranges::adjacent_find(seen) != seen.end()) return std::nullopt;
  return levels;
}

Hostwise::Hostwise(Transport& transport, const Levels& levels)
    : inside_(transport, levels.inside, levels.place),
      across_(transport, levels.across, levels.host) {}

bool Hostwise::run(const Operation& op, const Stamp& stamp) {
  inside_.begin(stamp);
  across_.begin(stamp);
  switch (op.verb) {
    case Verb::kAllReduce:
      op.bytes() > kSmallBytes ? all_reduce(op) : all_reduce_small(op);
      return true;
    case Verb::kReduceScatter:
      reduce_scatter(op, slices_of(op.in_counts, op.type), op.out);
      return true;
    case Verb::kAllGather: {
      const Slices slices = slices_of(op.out_counts, op.type);
      const Slice mine = slices[own()];
      if (op.out + mine.begin != op.in) copy_bytes(op.out + mine.begin, op.in, mine.bytes);
      all_gather(op.out, slices);
      return true;
    }
    case Verb::kBroadcast: broadcast(op); return true;
    case Verb::kBarrier: barrier(); return true;
    case Verb::kAllToAll:
    case Verb::kSend:
    case Verb::kRecv: return false;
  }
  return false;
}

void Hostwise::all_reduce(const Operation& op) {
  const Slices slices = slices_of(op.in_counts, op.type);
  reduce_scatter(op, slices, op.out + slices[own()].begin);
  all_gather(op.out, slices);
}

void Hostwise::all_reduce_small(const Operation& op) {
  const auto block = Reduction::block(op.type, op.reduce);
  const std::size_t bytes = static_cast<std::size_t>(op.count()) * size_of(block.to);
  partials_.resize(bytes);
  inside_.add(op.in, Slices(inside_.size(), Slice{0, op.bytes()}), block, partials_.data());
  across_.add(partials_.data(), Slices(across_.size(), Slice{0, bytes}),
              Reduction::of_blocks(op.type, op.reduce, inside_.size() * across_.size()), op.out);
}

void Hostwise::reduce_scatter(const Operation& op, const Slices& slices, std::byte* out) {
  const std::size_t hosts = across_.size();
  const auto block_sum = Reduction::block(op.type, op.reduce);
  const auto sum = Reduction::of_blocks(op.type, op.reduce, hosts * inside_.size());
  const std::size_t from = size_of(block_sum.from), to = size_of(block_sum.to);
  const std::size_t step = std::max<std::size_t>(kPartials / hosts / to, 1) * from;
  std::size_t begin = 0;
  do {
    const Slices parts = cut(slices, begin, begin + step);
    Slices sums = column(parts);
    std::size_t end = 0;
    for (Slice& slice : sums) {
      slice = {end, slice.bytes / from * to};
      end += slice.bytes;
    }
    partials_.resize(end);
    for (std::size_t host = 0; host < hosts; ++host)
      inside_.add(op.in, block(parts, host), block_sum, partials_.data() + sums[host].begin);
    across_.add(partials_.data(), sums, sum, out + std::min(begin, slices[own()].bytes));
    begin += step;
  } while (begin < longest(slices));
}

void Hostwise::all_gather(std::byte* data, const Slices& slices) {
  const auto share = [&](const Slices& all, std::size_t host) {
    const Slices theirs = block(all, host);
    inside_.swap(data, Slices(inside_.size(), theirs[inside_.own()]), data, theirs);
  };
  std::vector<Slices> parts;
  for (std::size_t begin = 0; begin == 0 || begin < longest(slices); begin += kPart)
    parts.push_back(cut(slices, begin, begin + kPart));
  std::vector<Exchange::Flight> flights;
  for (const Slices& part : parts)
    flights.push_back(
        across_.start_swap(data, Slices(across_.size(), part[own()]), data, column(part)));
  // While the network moves, the host shares what it has.
  share(slices, across_.own());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    flights[i].finish();
    for (std::size_t host = 0; host < across_.size(); ++host)
      if (host != across_.own()) share(parts[i], host);
  }
}

void Hostwise::broadcast(const Operation& op) {
  const int hosts = static_cast<int>(across_.size()), places = static_cast<int>(inside_.size());
  const int host = op.peer / places, place = op.peer % places;
  const bool small = op.bytes() <= kSmallBytes;
  const auto spread = [&](Exchange& among, int parts, int root) {
    if (small) return among.spread(op.out, op.bytes(), root);
    among.spread(op.out, slices_of(even_split(op.count(), parts), op.type), root);
  };
  if (static_cast<int>(inside_.own()) == place) spread(across_, hosts, host);
  spread(inside_, places, place);
}

// A rank that arrives from another host has seen all ranks of its host.
void Hostwise::barrier() {
  for (Exchange* among : {&inside_, &across_}) {
    const Slices none(among->size());
    among->swap(nullptr, none, nullptr, none);
  }
}

Slices Hostwise::block(const Slices& slices, std::size_t host) const {
  const auto first = slices.begin() + static_cast<std::ptrdiff_t>(host * inside_.size());
  return {first, first + static_cast<std::ptrdiff_t>(inside_.size())};
}

Slices Hostwise::column(const Slices& slices) const {
  Slices column;
  for (std::size_t at = inside_.own(); at < slices.size(); at += inside_.size())
    column.push_back(slices[at]);
  return column;
}

}  // namespace trireme::comm
