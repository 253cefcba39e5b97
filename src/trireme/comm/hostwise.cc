#include "trireme/comm/hostwise.h"

#include <algorithm>
#include <bit>

#include "trireme/comm/algorithm/links.h"
#include "trireme/comm/copy_bytes.h"

namespace trireme::comm {
namespace {

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

Hostwise::Hostwise(Transport& transport, const Levels& levels, const algorithm::Choice& across)
    : inside_(transport, levels.inside, levels.place),
      across_(make_pattern(across, transport, levels.across, levels.host)),
      shares_(across.shares) {}

bool Hostwise::run(const Operation& op, const Stamp& stamp) {
  inside_.begin(stamp);
  across_->begin(stamp);
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

Slices Hostwise::owned(const Operation& op) const {
  if (shares_.empty()) return slices_of(op.in_counts, op.type);
  std::vector<std::int64_t> counts;
  for (const std::int64_t hosts : algorithm::split(op.count(), shares_)) {
    const auto ranks = even_split(hosts, static_cast<int>(inside_.size()));
    counts.insert(counts.end(), ranks.begin(), ranks.end());
  }
  return slices_of(counts, op.type);
}

void Hostwise::all_reduce(const Operation& op) {
  const Slices slices = owned(op);
  if (across_->keeps_whole()) return all_reduce_whole(op, slices);
  reduce_scatter(op, slices, op.out + slices[own()].begin);
  all_gather(op.out, slices);
}

void Hostwise::all_reduce_small(const Operation& op) {
  const auto block = Reduction::block(op.type, op.reduce);
  const std::size_t bytes = static_cast<std::size_t>(op.count()) * size_of(block.to);
  partials_.resize(bytes);
  inside_.add(op.in, Slices(inside_.size(), Slice{0, op.bytes()}), block, partials_.data());
  across_->add_whole(partials_.data(), bytes,
                     Reduction::of_blocks(op.type, op.reduce, inside_.size() * across_->size()),
                     op.out);
}

void Hostwise::all_reduce_whole(const Operation& op, const Slices& slices) {
  const auto sum = Reduction::of_blocks(op.type, op.reduce, across_->size() * inside_.size());
  const std::size_t step = step_of(sum.from, op.type);
  for (std::size_t begin = 0; begin < longest(slices); begin += step) {
    const Slices parts = cut(slices, begin, begin + step);
    const Slice last = add_inside(op, parts).back();
    const std::size_t bytes = last.begin + last.bytes;
    sums_.resize(bytes / size_of(sum.from) * size_of(op.type));
    across_->add_whole(partials_.data(), bytes, sum, sums_.data());
    std::size_t at = 0;
    for (const Slice& part : column(parts)) {
      copy_bytes(op.out + part.begin, sums_.data() + at, part.bytes);
      at += part.bytes;
    }
    for (std::size_t host = 0; host < across_->size(); ++host) share(op.out, parts, host);
  }
}

Slices Hostwise::add_inside(const Operation& op, const Slices& parts) {
  const auto block_sum = Reduction::block(op.type, op.reduce);
  const std::size_t from = size_of(block_sum.from), to = size_of(block_sum.to);
  Slices sums = column(parts);
  std::size_t end = 0;
  for (Slice& slice : sums) {
    slice = {end, slice.bytes / from * to};
    end += slice.bytes;
  }
  partials_.resize(end);
  for (std::size_t host = 0; host < across_->size(); ++host)
    inside_.add(op.in, block(parts, host), block_sum, partials_.data() + sums[host].begin);
  return sums;
}

std::size_t Hostwise::step_of(DType partial, DType type) const {
  return std::max<std::size_t>(kPartials / across_->size() / size_of(partial), 1) * size_of(type);
}

void Hostwise::reduce_scatter(const Operation& op, const Slices& slices, std::byte* out) {
  const auto sum = Reduction::of_blocks(op.type, op.reduce, across_->size() * inside_.size());
  const std::size_t step = step_of(sum.from, op.type);
  std::size_t begin = 0;
  do {
    const Slices sums = add_inside(op, cut(slices, begin, begin + step));
    across_->add(partials_.data(), sums, sum, out + std::min(begin, slices[own()].bytes));
    begin += step;
  } while (begin < longest(slices));
}

void Hostwise::share(std::byte* data, const Slices& slices, std::size_t host) {
  const Slices theirs = block(slices, host);
  inside_.swap(data, Slices(inside_.size(), theirs[inside_.own()]), data, theirs);
}

void Hostwise::all_gather(std::byte* data, const Slices& slices) {
  std::vector<Slices> parts;
  for (std::size_t begin = 0; begin == 0 || begin < longest(slices); begin += kPart)
    parts.push_back(cut(slices, begin, begin + kPart));
  std::vector<Exchange::Flight> flights;
  if (across_->gathers_directly())
    for (const Slices& part : parts)
      flights.push_back(across_->direct().start_swap(data, Slices(across_->size(), part[own()]),
                                                     data, column(part)));
  // While the network moves, the host shares what it has.
  share(data, slices, across_->own());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    flights.empty() ? across_->gather(data, column(parts[i])) : flights[i].finish();
    for (std::size_t host = 0; host < across_->size(); ++host)
      if (host != across_->own()) share(data, parts[i], host);
  }
}

void Hostwise::broadcast(const Operation& op) {
  const int hosts = static_cast<int>(across_->size()), places = static_cast<int>(inside_.size());
  const int host = op.peer / places, place = op.peer % places;
  const bool small = op.bytes() <= kSmallBytes;
  const auto spread = [&](Exchange& among, int parts, int root) {
    if (small) return among.spread(op.out, op.bytes(), root);
    among.spread(op.out, slices_of(even_split(op.count(), parts), op.type), root);
  };
  if (static_cast<int>(inside_.own()) == place) spread(across_->direct(), hosts, host);
  spread(inside_, places, place);
}

// A rank that arrives from another host has seen all ranks of its host.
void Hostwise::barrier() {
  for (Exchange* among : {&inside_, &across_->direct()}) {
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
