#include "trireme/comm/collectives.h"

#include <string>

#include "trireme/base/error.h"
#include "trireme/comm/algorithm/links.h"
#include "trireme/comm/copy_bytes.h"

namespace trireme::comm {
namespace {

Stamp stamp_of(const Operation& op, std::uint64_t sequence) {
  const bool pair = op.verb == Verb::kSend || op.verb == Verb::kRecv;
  return {.sequence = sequence,
          .count = op.verb == Verb::kAllToAll ? 0 : op.count(),
          .root = op.verb == Verb::kBroadcast ? op.peer : 0,
          // Both ends of a message bear the sender's verb.
          .verb = pair ? Verb::kSend : op.verb,
          .reduce = op.reduce,
          .type = op.type,
          .line = op.line};
}

}  // namespace

Collectives::Collectives(Transport& transport, const std::vector<int>& ranks, int rank,
                         const std::optional<Levels>& levels, const algorithm::Choice& choice)
    : kind_(choice.kind) {
  const bool by_host = levels && kind_ != algorithm::Kind::kDirect;
  if (!by_host) shares_ = choice.shares;
  const auto hosts = static_cast<int>(by_host ? levels->across.size() : ranks.size());
  if (const std::string why = algorithm::refusal(choice, hosts); !why.empty())
    fail(ErrorKind::kUsage, "{}", why);
  if (by_host) hostwise_.emplace(transport, *levels, choice);
  all_ = make_pattern(by_host ? algorithm::Choice{} : choice, transport, ranks, rank);
}

void Collectives::run(const Operation& op, std::uint64_t sequence) {
  Stamp stamp = stamp_of(op, sequence);
  stamp.algorithm = static_cast<std::int32_t>(kind_);
  if (hostwise_ && hostwise_->run(op, stamp)) return;
  all_->begin(stamp);
  run_flat(op);
}

void Collectives::run_flat(const Operation& op) {
  switch (op.verb) {
    case Verb::kAllReduce: return all_reduce(op);
    case Verb::kReduceScatter: return reduce_scatter(op);
    case Verb::kAllGather: return all_gather(op);
    case Verb::kBroadcast: return broadcast(op);
    case Verb::kAllToAll: return all_to_all(op);
    case Verb::kSend: return all_->direct().send(op.in, op.bytes(), op.peer);
    case Verb::kRecv: return all_->direct().recv(op.out, op.bytes(), op.peer);
    case Verb::kBarrier: {
      const Slices none(all_->size());
      return all_->direct().swap(nullptr, none, nullptr, none);
    }
  }
}

void Collectives::all_reduce(const Operation& op) {
  const auto reduction = Reduction::whole(op.type, op.reduce, all_->size());
  if (op.bytes() > kSmallBytes)
    return all_->add_to_all(
        op.out,
        slices_of(shares_.empty() ? op.in_counts : algorithm::split(op.count(), shares_), op.type),
        reduction);
  // Peers read the input while the result is written: they get a copy.
  const std::vector<std::byte> input(op.in, op.in + op.bytes());
  all_->add_whole(input.data(), op.bytes(), reduction, op.out);
}

void Collectives::reduce_scatter(const Operation& op) {
  all_->add(op.in, slices_of(op.in_counts, op.type),
            Reduction::whole(op.type, op.reduce, all_->size()), op.out);
}

void Collectives::all_gather(const Operation& op) {
  const Slices slices = slices_of(op.out_counts, op.type);
  const Slice mine = slices[all_->own()];
  if (op.out + mine.begin != op.in) copy_bytes(op.out + mine.begin, op.in, mine.bytes);
  all_->gather(op.out, slices);
}

void Collectives::broadcast(const Operation& op) {
  if (op.bytes() <= kSmallBytes) return all_->direct().spread(op.out, op.bytes(), op.peer);
  all_->direct().spread(op.out, slices_of(op.in_counts, op.type), op.peer);
}

void Collectives::all_to_all(const Operation& op) {
  const Slices to = slices_of(op.in_counts, op.type);
  const Slices from = slices_of(op.out_counts, op.type);
  const std::size_t own = all_->direct().own();
  copy_bytes(op.out + from[own].begin, op.in + to[own].begin, to[own].bytes);
  all_->direct().swap(op.in, to, op.out, from);
}

}  // namespace trireme::comm
