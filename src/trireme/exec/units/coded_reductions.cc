// Coded sums: each rank sends the codes of the others' slices and adds its own slice of all senders' sums.
#include <numeric>
#include <utility>

#include "trireme/base/hash.h"
#include "trireme/exec/units/coded_slices.h"
#include "trireme/exec/units/integer_sums.h"
#include "trireme/exec/units/low_rank_sums.h"
#include "trireme/exec/units/unit_state.h"
#include "trireme/exec/units/units.h"

namespace trireme::exec {
namespace {

CodedSlices slices_of(const plan::CodedReduction& reduction, const UnitState& unit, int rank) {
  if (unit.each_mb)
    return {reduction, unit.part_begin % (reduction.within * unit.part_count), unit.numel,
            unit.draws, unit.mb_on_way * reduction.sums.senders + rank};
  const bool whole = reduction.count == unit.padded;
  return {reduction, whole ? 0 : unit.part_begin, unit.numel, unit.draws, rank * reduction.own()};
}

comm::Group& exchanging(const Groups& groups, const UnitState& unit,
                        const plan::CodedReduction& reduction) {
  const mesh::AxisSet axes = plan::coded_axes(unit.sharing);
  return reduction.within > 1 ? groups.across(axes, reduction.within) : groups.over(axes);
}

// The rank's column of a gradient, added over the neighbours that are one sender.
Flat add_neighbours(const plan::CodedReduction& reduction, comm::Group& neighbours,
                    MemoryCount& memory, const Flat& gradient) {
  Flat column(memory, reduction.count, DType::kF32);
  const std::int64_t part = reduction.count / reduction.ranks, block = part * reduction.within;
  std::vector<comm::Ticket> tickets;
  for (int sender = 0; sender < reduction.ranks; ++sender)
    tickets.push_back(neighbours.reduce_scatter(
        comm::Buffer{gradient.at(sender * block), block, DType::kF32},
        comm::Buffer{column.at(sender * part), part, DType::kF32}, comm::Reduce::kSum));
  for (comm::Ticket& ticket : tickets) ticket.wait();
  return column;
}

}  // namespace

ResultOnWay send_result(const plan::CodedReduction& reduction, const CodedSlices& slices,
                        comm::Group& group, MemoryCount& memory, const Flat& sum) {
  const int rank = group.rank();
  auto* const own = static_cast<float*>(sum.at(slices.first(rank)));
  ResultOnWay result;
  if (!reduction.sums.back) {
    result.ticket = group.all_gather_v(comm::Buffer{own, slices.elements(rank), DType::kF32},
                                       sum.buffer(), reduction.slices());
    return result;
  }
  const std::vector<std::int64_t> bytes = slices.result_bytes();
  result.codes = Flat(memory, reduction.back_bytes(reduction.count), DType::kU8);
  auto* const begin = static_cast<std::byte*>(
      result.codes.at(std::accumulate(bytes.begin(), bytes.begin() + rank, std::int64_t{0})));
  slices.encode_result(rank, own, begin);
  result.ticket = group.all_gather_v(comm::Buffer{begin, bytes[rank], DType::kU8},
                                     result.codes.buffer(), bytes);
  return result;
}

void take_result(const CodedSlices& slices, int ranks, const ResultOnWay& result, const Flat& sum) {
  result.ticket.wait();
  if (!result.codes) return;
  const std::vector<std::int64_t> bytes = slices.result_bytes();
  std::int64_t at = 0;
  for (int of = 0; of < ranks; at += bytes[of++])
    slices.decode_result(of, static_cast<const std::byte*>(result.codes.at(at)),
                         static_cast<float*>(sum.at(slices.first(of))));
}

void gather_result(const plan::CodedReduction& reduction, const CodedSlices& slices,
                   comm::Group& group, MemoryCount& memory, const Flat& sum) {
  take_result(slices, group.size(), send_result(reduction, slices, group, memory, sum), sum);
}

void Units::send_codes(plan::UnitId id, const CodedArgs& args) {
  UnitState& unit = at(id);
  const plan::CodedReduction reduction = plan::coded_reduction(plan_, id);
  unit.draws = codec::draws_of(args.seed, static_cast<std::uint64_t>(args.update), /*sender=*/0,
                               hash64(unit.spec->name));
  unit.draws.unbiased = !unit.residual;
  if (plan::sums_at_low_rank(plan_.recipe))
    return LowRankSums(plan_, rank_, groups_, *memory_, id, unit).begin(args.gradient_scale);
  comm::Group& group = exchanging(groups_, unit, reduction);
  const CodedSlices slices = slices_of(reduction, unit, group.rank());
  std::vector<Flat> sums;
  if (unit.each_mb)
    sums.push_back(std::exchange(unit.on_way().leaf, Flat()));
  else
    sums = unit.on_way().sender_sums();
  if (reduction.integers()) {
    const IntegerSums integers(reduction, slices, group, *memory_);
    unit.reduce = integers.send(unit, sums, args.gradient_scale);
    if (!reduction.scatters) unit.on_way().sum = std::move(sums.front());
    return;
  }
  const std::vector<std::int64_t> to = slices.sent_bytes();
  const std::vector<std::int64_t> from(to.size(), to[group.rank()]);
  unit.sent = Flat(*memory_, std::accumulate(to.begin(), to.end(), std::int64_t{0}), DType::kU8);
  unit.received =
      Flat(*memory_, std::accumulate(from.begin(), from.end(), std::int64_t{0}), DType::kU8);
  if (reduction.within > 1)
    sums.front() =
        add_neighbours(reduction, groups_.inside(plan::coded_axes(unit.sharing), reduction.within),
                       *memory_, sums.front());
  TRIREME_CHECK(std::ssize(sums) == reduction.own(), "{} sums of {} senders", sums.size(),
                reduction.own());
  if (unit.residual) {
    const int earlier = unit.each_mb ? unit.mb_on_way : 0;  // one sender of each micro-batch
    if (earlier == 0)
      unit.next_residual = Flat(*memory_, unit.residual.count(), unit.residual.type());
    slices.encode(sums, unit.residual, unit.next_residual, args.gradient_scale, earlier, unit.sent);
  } else {
    slices.encode(sums, unit.sent);
  }
  if (!reduction.scatters)
    unit.on_way().sum = std::move(sums.front());  // its memory takes the result
  unit.reduce = group.all_to_all(unit.sent.buffer(), to, unit.received.buffer(), from);
}

void Units::add_codes(plan::UnitId id) {
  UnitState& unit = at(id);
  if (plan::sums_at_low_rank(plan_.recipe))
    return LowRankSums(plan_, rank_, groups_, *memory_, id, unit).finish();
  const plan::CodedReduction reduction = plan::coded_reduction(plan_, id);
  comm::Group& group = exchanging(groups_, unit, reduction);
  const CodedSlices slices = slices_of(reduction, unit, group.rank());
  const int rank = group.rank();
  if (!reduction.integers()) unit.sent = Flat();
  if (unit.each_mb) {
    const Flat codes = std::exchange(unit.received, Flat(*memory_, unit.part_count, DType::kF32));
    slices.add(rank, codes, static_cast<float*>(unit.received.data()));
    return push_leaves(unit, unit.chunk_on_way);
  }
  Flat& sum = unit.on_way().sum;
  if (reduction.scatters) sum = Flat(*memory_, slices.elements(rank), DType::kF32);
  auto* const own =
      static_cast<float*>(reduction.scatters ? sum.data() : sum.at(slices.first(rank)));
  if (reduction.integers()) {
    IntegerSums(reduction, slices, group, *memory_).take(unit, own);
    if (reduction.returns_integers()) return;
  } else {
    slices.add(rank, unit.received, own);
    unit.received = Flat();
  }
  if (!reduction.scatters) return gather_result(reduction, slices, group, *memory_, sum);
  if (!reduction.sums.back) return;
  const Flat codes(*memory_, reduction.back_bytes(slices.elements(rank)), DType::kU8);
  slices.encode_result(rank, own, static_cast<std::byte*>(codes.data()));
  slices.decode_result(rank, static_cast<const std::byte*>(codes.data()), own);
}

}  // namespace trireme::exec
