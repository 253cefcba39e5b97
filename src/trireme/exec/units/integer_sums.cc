#include "trireme/exec/units/integer_sums.h"

#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "trireme/comm/codec/integer.h"

namespace trireme::exec {
namespace {

constexpr std::int64_t kIntegers = 4096;  // coded and added at a time; whole blocks

// Calls use(begin, count) for parts of `all` elements.
template <typename Use>
void for_parts(std::int64_t all, const Use& use) {
  for (std::int64_t begin = 0; begin < all; begin += kIntegers)
    use(begin, std::min(kIntegers, all - begin));
}

template <typename Number>
std::span<Number> first_of(std::vector<Number>& numbers, std::int64_t count) {
  return std::span(numbers).first(static_cast<std::size_t>(count));
}

std::span<float> floats_of(const at::Tensor& values) {
  return {values.data_ptr<float>(), static_cast<std::size_t>(values.numel())};
}

std::int64_t packed_bytes(int bits, std::int64_t count) { return count * bits / 8; }

// Calls use(begin, sums) for the sums of all parts of `in`, each of `count` elements.
template <typename Packed, typename Use>
void for_sums(const Packed& in, std::int64_t count, const Use& use) {
  std::vector<std::int32_t> sums(kIntegers);
  for_parts(count, [&](std::int64_t begin, std::int64_t some) {
    const std::span<std::int32_t> here = first_of(sums, some);
    std::ranges::fill(here, 0);
    for (int part = 0; part < in.parts; ++part)
      codec::add_integers(
          in.bits,
          {in.data + part * packed_bytes(in.bits, count) + packed_bytes(in.bits, begin),
           static_cast<std::size_t>(packed_bytes(in.bits, some))},
          here);
    use(begin, here);
  });
}

}  // namespace

std::span<std::uint8_t> IntegerSums::exponents(const UnitState& unit, std::int64_t from,
                                               std::int64_t count) const {
  return {static_cast<std::uint8_t*>(unit.exponents.at(from / reduction_.block)),
          static_cast<std::size_t>(count / reduction_.block)};
}

// What a sender codes of its elements [from, from + count).
at::Tensor IntegerSums::values(const UnitState& unit, std::span<const Flat> sums, int sender,
                               double scale, std::int64_t from, std::int64_t count) const {
  const at::Tensor sum = sums[static_cast<std::size_t>(sender)].tensor(from, count);
  if (!unit.residual) return sum;
  const at::Tensor left = unit.residual.tensor(sender * reduction_.count + from, count);
  return sum.add(left.to(at::kFloat).mul(scale));
}

void IntegerSums::find_exponents(const UnitState& unit, std::span<const Flat> sums,
                                 double scale) const {
  std::vector<std::uint8_t> found(static_cast<std::size_t>(kIntegers / reduction_.block));
  for_parts(reduction_.count, [&](std::int64_t from, std::int64_t count) {
    const std::span<std::uint8_t> largest = exponents(unit, from, count);
    std::ranges::fill(largest, codec::kZeroBlock);
    for (int sender = 0; sender < reduction_.own(); ++sender) {
      const at::Tensor coded = values(unit, sums, sender, scale, from, count);
      const std::span<std::uint8_t> here = first_of(found, count / reduction_.block);
      codec::find_exponents(reduction_.sums.codec, segment(from, count), floats_of(coded), here);
      std::ranges::transform(here, largest, largest.begin(),
                             [](std::uint8_t a, std::uint8_t b) { return std::max(a, b); });
    }
  });
}

void IntegerSums::encode(const UnitState& unit, std::span<const Flat> sums, double scale) const {
  std::vector<std::int32_t> codes(kIntegers), added(kIntegers);
  std::vector<float> decoded(kIntegers);
  const int bits = reduction_.sent_bits();
  for_parts(reduction_.count, [&](std::int64_t from, std::int64_t count) {
    const codec::Segment here = segment(from, count);
    const std::span<const std::uint8_t> shared = exponents(unit, from, count);
    const std::span<std::int32_t> sum = first_of(added, count), one = first_of(codes, count);
    std::ranges::fill(sum, 0);
    for (int sender = 0; sender < reduction_.own(); ++sender) {
      const at::Tensor coded = values(unit, sums, sender, scale, from, count);
      codec::encode_integers(here, shared, floats_of(coded), one);
      std::ranges::transform(sum, one, sum.begin(), std::plus());
      if (!unit.residual) continue;
      codec::decode_integers(here, shared, one, first_of(decoded, count));
      const at::Tensor sent = at::from_blob(decoded.data(), {count}, at::kFloat);
      unit.next_residual.tensor(sender * reduction_.count + from, count)
          .copy_(coded.sub(sent).div(scale));
    }
    codec::pack_integers(bits, sum,
                         {static_cast<std::byte*>(unit.sent.at(packed_bytes(bits, from))),
                          static_cast<std::size_t>(packed_bytes(bits, count))});
  });
}

comm::Ticket IntegerSums::send(UnitState& unit, std::span<const Flat> sums, double scale) const {
  const int rank = group_.rank();
  unit.exponents = Flat(memory_, reduction_.exponents(), DType::kU8);
  unit.sent = Flat(memory_, reduction_.sent_bytes(reduction_.count), DType::kU8);
  unit.received = Flat(memory_, reduction_.received_bytes(rank), DType::kU8);
  if (unit.residual)
    unit.next_residual = Flat(memory_, unit.residual.count(), unit.residual.type());
  find_exponents(unit, sums, scale);
  group_.all_reduce(unit.exponents.buffer(), comm::Reduce::kMax).wait();
  encode(unit, sums, scale);
  if (!reduction_.adds_on_way) {
    const std::vector<std::int64_t> to = slices_.sent_bytes();
    const std::vector<std::int64_t> from(to.size(), to[static_cast<std::size_t>(rank)]);
    return group_.all_to_all(unit.sent.buffer(), to, unit.received.buffer(), from);
  }
  const DType type = reduction_.sum_type();
  const comm::Buffer all{unit.sent.data(), reduction_.count, type};
  if (reduction_.returns_integers()) return group_.all_reduce(all, comm::Reduce::kSum);
  const std::vector<std::int64_t> counts = reduction_.slices();
  const comm::Buffer slice{unit.received.data(), slices_.elements(rank), type};
  return group_.reduce_scatter_v(all, slice, counts, comm::Reduce::kSum);
}

void IntegerSums::decode(const UnitState& unit, const Packed& in, std::int64_t first,
                         std::int64_t count, float* out) const {
  for_sums(in, count, [&](std::int64_t begin, std::span<const std::int32_t> sums) {
    const std::int64_t from = first + begin, some = std::ssize(sums);
    codec::decode_integers(segment(from, some), exponents(unit, from, some), sums,
                           {out + begin, sums.size()});
  });
}

void IntegerSums::take(UnitState& unit, float* own) const {
  const int rank = group_.rank(), bits = reduction_.sent_bits();
  const std::int64_t first = slices_.first(rank), count = slices_.elements(rank);
  const Packed received{.data = static_cast<const std::byte*>(unit.received.data()),
                        .bits = bits,
                        .parts = reduction_.adds_on_way ? 1 : reduction_.ranks};
  const Flat& sum = unit.on_way().sum;
  const DType type = reduction_.sum_type();
  Packed whole{.data = static_cast<const std::byte*>(unit.sent.data()),
               .bits = 8 * static_cast<int>(size_of(type)),
               .parts = 1};
  if (!reduction_.returns_integers()) {
    decode(unit, received, first, count, own);
  } else {
    if (!reduction_.adds_on_way) {
      // Integers are gathered at the end of the sum's memory, where decoding overwrites only what it has read.
      const std::int64_t bytes = reduction_.back_bytes(reduction_.count);
      std::byte* const all = static_cast<std::byte*>(sum.data()) + sum.bytes() - bytes;
      std::byte* const slice = all + reduction_.back_bytes(first);
      for_sums(received, count, [&](std::int64_t begin, std::span<const std::int32_t> sums) {
        codec::pack_integers(whole.bits, sums,
                             {slice + reduction_.back_bytes(begin),
                              static_cast<std::size_t>(reduction_.back_bytes(std::ssize(sums)))});
      });
      const std::vector<std::int64_t> counts = reduction_.slices();
      group_
          .all_gather_v(comm::Buffer{slice, count, type}, comm::Buffer{all, reduction_.count, type},
                        counts)
          .wait();
      whole.data = all;
    }
    decode(unit, whole, 0, reduction_.count, static_cast<float*>(sum.data()));
  }
  unit.sent = Flat();
  unit.received = Flat();
  unit.exponents = Flat();
}

}  // namespace trireme::exec
