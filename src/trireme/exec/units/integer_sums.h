// IntegerSums: sums of gradients as integers, in units of powers of two that all senders share.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "trireme/comm/group.h"
#include "trireme/exec/units/coded_slices.h"
#include "trireme/exec/units/unit_state.h"

namespace trireme::exec {

// Of one unit's reduction on one rank; all references outlive it.
class IntegerSums {
 public:
  IntegerSums(const plan::CodedReduction& reduction, const CodedSlices& slices, comm::Group& group,
              MemoryCount& memory)
      : reduction_(reduction), slices_(slices), group_(group), memory_(memory) {}

  // Waits for the exponents of all ranks, then starts the exchange of integers. With unit.residual, codes are those of
  // sum + scale * residual; what they leave out, divided by the scale, is unit.next_residual.
  comm::Ticket send(UnitState& unit, std::span<const Flat> sums, double scale) const;
  // After the exchange: the rank's slice of the sum in `own`, or all of it in the sum on its way where
  // reduction.returns_integers().
  void take(UnitState& unit, float* own) const;

 private:
  // `parts` sums of equally many elements, one after the other.
  struct Packed {
    const std::byte* data;
    int bits;
    int parts;
  };
  at::Tensor values(const UnitState& unit, std::span<const Flat> sums, int sender, double scale,
                    std::int64_t from, std::int64_t count) const;
  void find_exponents(const UnitState& unit, std::span<const Flat> sums, double scale) const;
  void encode(const UnitState& unit, std::span<const Flat> sums, double scale) const;
  void decode(const UnitState& unit, const Packed& in, std::int64_t first, std::int64_t count,
              float* out) const;
  std::span<std::uint8_t> exponents(const UnitState& unit, std::int64_t from,
                                    std::int64_t count) const;
  codec::Segment segment(std::int64_t from, std::int64_t count) const {
    return slices_.segment(from, count, reduction_.block);
  }

  const plan::CodedReduction& reduction_;
  const CodedSlices& slices_;
  comm::Group& group_;
  MemoryCount& memory_;
};

}  // namespace trireme::exec
