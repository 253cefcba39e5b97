// CodedSlices: sums of gradients as codes, slice by slice of the ranks that exchange them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "trireme/exec/units/flat.h"
#include "trireme/exec/units/outer_state.h"
#include "trireme/plan/coded_reduction.h"

namespace trireme::exec {

// Of one unit on one rank, whose senders count from `first_sender`. Flats of sums have `reduction.count` elements of fp32 in
// host memory, which begin at element `begin` of the unit; elements of the unit from `numel` on are padding.
class CodedSlices {
 public:
  CodedSlices(plan::CodedReduction reduction, std::int64_t begin, std::int64_t numel,
              codec::Draws draws, int first_sender);

  // First element of a rank's slice, and its number of elements.
  std::int64_t first(int rank) const { return firsts_[rank]; }
  std::int64_t elements(int rank) const { return slices_[rank]; }
  // Elements [first, first + count) of a sum, for a codec with blocks of `block`.
  codec::Segment segment(std::int64_t first, std::int64_t count, std::int64_t block) const;
  // Bytes by rank: of the codes of all own senders, and of results.
  std::vector<std::int64_t> sent_bytes() const;
  std::vector<std::int64_t> result_bytes() const;

  // Codes of each rank's slice of all sums, rank by rank. With residuals, each of `count` elements, which senders use in
  // turn: codes of sum + scale * residual, and what they leave out, divided by the scale, as the residual in `after`.
  // The residual is in `before` where no sender of the step has used it yet; `earlier` own senders have coded.
  void encode(std::span<const Flat> sums, const Flat& codes) const;
  void encode(std::span<const Flat> sums, const Flat& before, const Flat& after, double scale,
              int earlier, const Flat& codes) const;
  // The decoded slices of all senders, added as a tree: `out` is the rank's slice.
  void add(int rank, const Flat& codes, float* out) const;
  // A rank's slice of the result in the codec of the way back, and the inverse.
  void encode_result(int rank, const float* slice, std::byte* codes) const;
  void decode_result(int rank, const std::byte* codes, float* slice) const;

 private:
  codec::Draws draws_of(int sender) const;  // one of its own
  // Calls use(sender, first element, elements, codes) for every slice of every own sender, in order of the codes.
  template <typename Use>
  void for_slices(const Flat& codes, const Use& use) const;

  plan::CodedReduction reduction_;
  std::int64_t begin_;
  std::int64_t numel_;
  codec::Draws draws_;
  int first_sender_;
  std::vector<std::int64_t> slices_;
  std::vector<std::int64_t> firsts_;
};

// The whole sum from each rank's slice of it, in the codec of the way back if there is one.
void gather_result(const plan::CodedReduction& reduction, const CodedSlices& slices,
                   comm::Group& group, MemoryCount& memory, const Flat& sum);

// The same in two parts. Until the second has returned, nothing else may touch the sum.
ResultOnWay send_result(const plan::CodedReduction& reduction, const CodedSlices& slices,
                        comm::Group& group, MemoryCount& memory, const Flat& sum);
void take_result(const CodedSlices& slices, int ranks, const ResultOnWay& result, const Flat& sum);

}  // namespace trireme::exec
