// Coded gathers: each rank sends the codes of its masters, and computes with what all codes decode to.
#include <ATen/Parallel.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <array>
#include <utility>

#include "trireme/exec/groups.h"
#include "trireme/exec/units/masters.h"
#include "trireme/exec/units/unit_state.h"

namespace trireme::exec {
namespace {

constexpr std::int64_t kPiece = 4096;  // elements coded at a time; whole blocks
constexpr std::int64_t kGrain = 8;     // ranges worth a thread of their own

// Calls use(first element, elements) for ranges of `count` elements.
template <typename Use>
void for_pieces(std::int64_t count, const Use& use) {
  at::parallel_for(0, blocks(count, kPiece), kGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t piece = begin; piece < end; ++piece)
      use(piece * kPiece, std::min(kPiece, count - piece * kPiece));
  });
}

// Codes of elements of the unit from `first` on.
struct Piece {
  const UnitState& unit;
  std::int64_t first;
  std::int64_t count;

  codec::Segment segment() const {
    return {.block = unit.codes->block,
            .first = first / unit.codes->block,
            .real = std::clamp<std::int64_t>(unit.numel - first, 0, count)};
  }
  std::size_t bytes() const { return bytes(count); }
  std::size_t bytes(std::int64_t elements) const {
    return static_cast<std::size_t>(
        codec::coded_bytes(unit.codes->codec, elements, unit.codes->block));
  }
  void encode(std::byte* out) const {
    const auto* const masters = static_cast<const float*>(unit.master.at(first - unit.part_begin));
    codec::encode(unit.codes->codec, segment(), {}, {masters, static_cast<std::size_t>(count)},
                  {out, bytes()});
  }
  void decode(const std::byte* in) const {
    std::array<float, kPiece> values;
    codec::decode(unit.codes->codec, segment(), {}, {in, bytes()},
                  {values.data(), static_cast<std::size_t>(count)});
    round_masters(at::from_blob(values.data(), {count}, at::kFloat),
                  unit.full.tensor(first, count));
  }
};

void encode_masters(const UnitState& unit, std::byte* out) {
  for_pieces(unit.part_count, [&](std::int64_t begin, std::int64_t count) {
    const Piece piece{unit, unit.part_begin + begin, count};
    piece.encode(out + piece.bytes(begin));
  });
}

void decode_params(const UnitState& unit, const std::byte* in, std::int64_t shard) {
  for_pieces(unit.part_count, [&](std::int64_t begin, std::int64_t count) {
    const Piece piece{unit, shard * unit.part_count + begin, count};
    piece.decode(in + piece.bytes(begin));
  });
}

}  // namespace

void UnitState::round_master() {
  if (!codes) return round_masters(master.tensor(0, part_count), computed(0, part_count));
  if (codes->rests) return encode_masters(*this, static_cast<std::byte*>(part.data()));
  if (!sharing.shards.empty()) return;
  for_pieces(part_count, [&](std::int64_t begin, std::int64_t count) {
    const Piece piece{*this, begin, count};
    std::array<std::byte, kPiece * sizeof(float)> own;
    piece.encode(own.data());
    piece.decode(own.data());
  });
}

void UnitState::gather_codes(MemoryCount& memory, const Groups& groups, mesh::AxisSet axes,
                             int within) {
  at::NoGradGuard no_grad;
  coming = Flat(memory, codes->bytes(), DType::kU8);
  keeps = within == 0 && kept;
  if (within > 0) {
    gather = groups.inside(axes, within).all_gather(kept.buffer(), coming.buffer());
    return;
  }
  comm::Group& group = groups.over(axes);
  auto* const own = static_cast<std::byte*>(coming.at(group.rank() * codes->part));
  if (!codes->rests) encode_masters(*this, own);
  const comm::Buffer mine =
      codes->rests ? part.buffer() : comm::Buffer{own, codes->part, DType::kU8};
  gather = group.all_gather(mine, coming.buffer());
}

void UnitState::take_codes() {
  at::NoGradGuard no_grad;
  for (std::int64_t shard = 0; shard < codes->shards; ++shard)
    decode_params(*this, static_cast<const std::byte*>(coming.at(shard * codes->part)), shard);
  if (std::exchange(keeps, false)) {
    const std::int64_t place = part_begin / part_count % codes->within;
    kept.tensor(0, kept.count()).copy_(coming.tensor(place * kept.count(), kept.count()));
  }
  coming = Flat();
}

}  // namespace trireme::exec
