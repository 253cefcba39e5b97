// CodedSlices: sums of gradients as codes, slice by slice of the ranks that exchange them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "trireme/exec/units/flat.h"
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
  // Bytes by rank: of the codes of all own senders, and of results.
  std::vector<std::int64_t> sent_bytes() const;
  std::vector<std::int64_t> result_bytes() const;

  // Codes of each rank's slice of all sums, rank by rank. With residuals, which have one more `count` of elements a
  // sender: codes of sum + scale * before, and what they leave out, divided by the scale, as `after`.
  void encode(std::span<const Flat> sums, const Flat& codes) const;
  void encode(std::span<const Flat> sums, const Flat& before, const Flat& after, double scale,
              const Flat& codes) const;
  // The decoded slices of all senders, added as a tree: `out` is the rank's slice.
  void add(int rank, const Flat& codes, float* out) const;
  // A rank's slice of the result in the codec of the way back, and the inverse.
  void encode_result(int rank, const float* slice, std::byte* codes) const;
  void decode_result(int rank, const std::byte* codes, float* slice) const;

 private:
  codec::Draws draws_of(int sender) const;  // one of its own
  codec::Segment segment(std::int64_t first, std::int64_t count, std::int64_t block) const;
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

}  // namespace trireme::exec
