#include "trireme/comm/group.h"

#include <cstring>
#include <utility>

#include "trireme/comm/tree_sum.h"

namespace trireme::comm {
namespace {

const std::byte* bytes(const void* data) { return static_cast<const std::byte*>(data); }
std::byte* bytes(void* data) { return static_cast<std::byte*>(data); }

bool reducible(DType type, Reduce reduce) {
  switch (type) {
    case DType::kF64:
    case DType::kF32:
    case DType::kBF16:
    case DType::kF16: return true;
    default: return is_integral(type) && reduce != Reduce::kAvg;
  }
}

}  // namespace

Group::Group(std::string name, int rank, int size)
    : name_(std::move(name)), rank_(rank), size_(size) {
  TRIREME_CHECK(size >= 1 && rank >= 0 && rank < size, "group '{}': rank {} of {}", name_, rank,
                size);
}

void Group::check(bool ok, Verb verb, const std::string& what) const {
  if (ok) return;
  fail(ErrorKind::kInternal, "{} on group '{}' of {} (rank {}): {}", comm::name(verb), name_, size_,
       rank_, what);
}

Ticket Group::submit(Operation op) {
  const bool reduces = op.verb == Verb::kAllReduce || op.verb == Verb::kReduceScatter;
  check(
      !reduces || reducible(op.type, op.reduce), op.verb,
      fmt::format(
          "cannot take the {} of {}; needs fp64, fp32, bf16, fp16 (sum, max, avg) or int64, int32, "
          "int16, uint8 (sum, max)",
          comm::name(op.reduce), trireme::name(op.type)));
  for (const auto* counts : {&op.in_counts, &op.out_counts})
    for (std::int64_t count : *counts)
      check(count >= 0, op.verb, fmt::format("count {} is negative", count));
  check(op.in || total(op.in_counts) == 0, op.verb, "input is null");
  check(op.out || total(op.out_counts) == 0, op.verb, "output is null");
  if (size_ > 1) return start(std::move(op));
  if (op.count() > 0 && op.in != op.out) copy(op.in, op.out, op.count(), op.type);
  return Ticket();
}

void Group::copy(const std::byte* in, std::byte* out, std::int64_t count, DType type) {
  std::memmove(out, in, static_cast<std::size_t>(count) * size_of(type));
}

Ticket Group::all_reduce(Buffer inout, Reduce reduce) {
  check(inout.count >= 0, Verb::kAllReduce, fmt::format("count {} is negative", inout.count));
  const auto split = even_split(inout.count, size_);
  return submit({.verb = Verb::kAllReduce,
                 .reduce = reduce,
                 .type = inout.type,
                 .in = bytes(inout.data),
                 .out = bytes(inout.data),
                 .in_counts = split,
                 .out_counts = split});
}

Ticket Group::reduce_scatter(ConstBuffer in, Buffer out, Reduce reduce) {
  const std::vector<std::int64_t> counts(static_cast<std::size_t>(size_), out.count);
  return reduce_scatter_v(in, out, counts, reduce);
}

Ticket Group::reduce_scatter_v(ConstBuffer in, Buffer out, std::span<const std::int64_t> counts,
                               Reduce reduce) {
  const Verb verb = Verb::kReduceScatter;
  check(std::ssize(counts) == size_, verb, fmt::format("{} counts", counts.size()));
  check(in.type == out.type, verb, "input and output differ in type");
  check(in.count == total(counts), verb,
        fmt::format("input holds {} elements, the slices {}", in.count, total(counts)));
  const std::int64_t own = counts[rank_];
  check(out.count == own, verb,
        fmt::format("output holds {} elements, the slice {}", out.count, own));
  return submit({.verb = verb,
                 .reduce = reduce,
                 .type = in.type,
                 .in = bytes(in.data),
                 .out = bytes(out.data),
                 .in_counts = {counts.begin(), counts.end()},
                 .out_counts = {out.count}});
}

Ticket Group::all_gather(ConstBuffer in, Buffer out) {
  const std::vector<std::int64_t> counts(static_cast<std::size_t>(size_), in.count);
  return all_gather_v(in, out, counts);
}

Ticket Group::all_gather_v(ConstBuffer in, Buffer out, std::span<const std::int64_t> counts) {
  const Verb verb = Verb::kAllGather;
  check(std::ssize(counts) == size_, verb, fmt::format("{} counts", counts.size()));
  check(in.type == out.type, verb, "input and output differ in type");
  check(out.count == total(counts), verb,
        fmt::format("output holds {} elements, the slices {}", out.count, total(counts)));
  const std::int64_t own = counts[rank_];
  check(in.count == own, verb, fmt::format("input holds {} elements, the slice {}", in.count, own));
  return submit({.verb = verb,
                 .type = in.type,
                 .in = bytes(in.data),
                 .out = bytes(out.data),
                 .in_counts = {in.count},
                 .out_counts = {counts.begin(), counts.end()}});
}

Ticket Group::broadcast(Buffer inout, int root) {
  check(root >= 0 && root < size_, Verb::kBroadcast, fmt::format("root {}", root));
  check(inout.count >= 0, Verb::kBroadcast, fmt::format("count {} is negative", inout.count));
  const auto split = even_split(inout.count, size_);
  return submit({.verb = Verb::kBroadcast,
                 .type = inout.type,
                 .in = bytes(inout.data),
                 .out = bytes(inout.data),
                 .in_counts = split,
                 .out_counts = split,
                 .peer = root});
}

Ticket Group::all_to_all(ConstBuffer in, std::span<const std::int64_t> in_counts, Buffer out,
                         std::span<const std::int64_t> out_counts) {
  const Verb verb = Verb::kAllToAll;
  check(std::ssize(in_counts) == size_ && std::ssize(out_counts) == size_, verb,
        fmt::format("{} and {} counts", in_counts.size(), out_counts.size()));
  check(in.type == out.type, verb, "input and output differ in type");
  check(in.count == total(in_counts) && out.count == total(out_counts), verb,
        fmt::format("buffers hold {} and {} elements, the slices {} and {}", in.count, out.count,
                    total(in_counts), total(out_counts)));
  const auto own = static_cast<std::size_t>(rank_);
  check(
      in_counts[own] == out_counts[own], verb,
      fmt::format("sends {} elements to itself but receives {}", in_counts[own], out_counts[own]));
  return submit({.verb = verb,
                 .type = in.type,
                 .in = bytes(in.data),
                 .out = bytes(out.data),
                 .in_counts = {in_counts.begin(), in_counts.end()},
                 .out_counts = {out_counts.begin(), out_counts.end()}});
}

Ticket Group::send(ConstBuffer in, int peer) {
  check(peer >= 0 && peer < size_ && peer != rank_, Verb::kSend, fmt::format("peer {}", peer));
  return submit({.verb = Verb::kSend,
                 .type = in.type,
                 .in = bytes(in.data),
                 .in_counts = {in.count},
                 .peer = peer});
}

Ticket Group::recv(Buffer out, int peer) {
  check(peer >= 0 && peer < size_ && peer != rank_, Verb::kRecv, fmt::format("peer {}", peer));
  return submit({.verb = Verb::kRecv,
                 .type = out.type,
                 .out = bytes(out.data),
                 .out_counts = {out.count},
                 .peer = peer});
}

Ticket Group::barrier() { return submit({.verb = Verb::kBarrier}); }

}  // namespace trireme::comm
