// Coded sums: each rank sends the codes of the others' slices and adds its own slice of all senders' sums.
#include <numeric>
#include <utility>

#include "trireme/base/hash.h"
#include "trireme/exec/units/coded_slices.h"
#include "trireme/exec/units/unit_state.h"
#include "trireme/exec/units/units.h"

namespace trireme::exec {
namespace {

CodedSlices slices_of(const plan::CodedReduction& reduction, const UnitState& unit, int rank) {
  const bool whole = reduction.count == unit.padded;
  return {reduction, whole ? 0 : unit.part_begin, unit.numel, unit.draws, rank * reduction.own()};
}

// The whole sum from each rank's slice of it, in the codec of the way back if there is one.
void gather(const plan::CodedReduction& reduction, const CodedSlices& slices, comm::Group& group,
            MemoryCount& memory, const Flat& sum) {
  const int rank = group.rank();
  const auto slice = [&](int of) { return static_cast<float*>(sum.at(slices.first(of))); };
  if (!reduction.sums.back) {
    const std::vector<std::int64_t> counts = reduction.slices();
    group
        .all_gather_v(comm::Buffer{slice(rank), slices.elements(rank), DType::kF32}, sum.buffer(),
                      counts)
        .wait();
    return;
  }
  const std::vector<std::int64_t> bytes = slices.result_bytes();
  const Flat codes(memory, reduction.back_bytes(reduction.count), DType::kU8);
  const auto begin = [&](int of) {
    return static_cast<std::byte*>(
        codes.at(std::accumulate(bytes.begin(), bytes.begin() + of, std::int64_t{0})));
  };
  slices.encode_result(rank, slice(rank), begin(rank));
  group.all_gather_v(comm::Buffer{begin(rank), bytes[rank], DType::kU8}, codes.buffer(), bytes)
      .wait();
  for (int of = 0; of < group.size(); ++of) slices.decode_result(of, begin(of), slice(of));
}

}  // namespace

void Units::send_codes(plan::UnitId id, const CodedArgs& args) {
  UnitState& unit = at(id);
  const plan::CodedReduction reduction = plan::coded_reduction(plan_, id);
  unit.draws = codec::draws_of(args.seed, static_cast<std::uint64_t>(args.update), /*sender=*/0,
                               hash64(unit.spec->name));
  unit.draws.unbiased = !unit.residual;
  comm::Group& group = groups_.over(plan::coded_axes(unit.sharing));
  const CodedSlices slices = slices_of(reduction, unit, group.rank());
  std::vector<Flat> sums = unit.on_way().sender_sums();
  const std::vector<std::int64_t> to = slices.sent_bytes();
  const std::vector<std::int64_t> from(to.size(), to[group.rank()]);
  unit.sent = Flat(*memory_, std::accumulate(to.begin(), to.end(), std::int64_t{0}), DType::kU8);
  unit.received =
      Flat(*memory_, std::accumulate(from.begin(), from.end(), std::int64_t{0}), DType::kU8);
  TRIREME_CHECK(std::ssize(sums) == reduction.own(), "{} sums of {} senders", sums.size(),
                reduction.own());
  if (unit.residual) {
    unit.next_residual = Flat(*memory_, unit.residual.count(), unit.residual.type());
    slices.encode(sums, unit.residual, unit.next_residual, args.gradient_scale, unit.sent);
  } else {
    slices.encode(sums, unit.sent);
  }
  if (!reduction.scatters)
    unit.on_way().sum = std::move(sums.front());  // its memory takes the result
  unit.reduce = group.all_to_all(unit.sent.buffer(), to, unit.received.buffer(), from);
}

void Units::add_codes(plan::UnitId id) {
  UnitState& unit = at(id);
  const plan::CodedReduction reduction = plan::coded_reduction(plan_, id);
  comm::Group& group = groups_.over(plan::coded_axes(unit.sharing));
  const CodedSlices slices = slices_of(reduction, unit, group.rank());
  const int rank = group.rank();
  Flat& sum = unit.on_way().sum;
  if (reduction.scatters) sum = Flat(*memory_, slices.elements(rank), DType::kF32);
  auto* const own =
      static_cast<float*>(reduction.scatters ? sum.data() : sum.at(slices.first(rank)));
  slices.add(rank, unit.received, own);
  unit.sent = Flat();
  unit.received = Flat();
  if (!reduction.scatters) return gather(reduction, slices, group, *memory_, sum);
  if (!reduction.sums.back) return;
  const Flat codes(*memory_, reduction.back_bytes(slices.elements(rank)), DType::kU8);
  slices.encode_result(rank, own, static_cast<std::byte*>(codes.data()));
  slices.decode_result(rank, static_cast<const std::byte*>(codes.data()), own);
}

}  // namespace trireme::exec
