// TreePattern: sums by a double binary tree, for few elements.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "trireme/comm/algorithm/algorithm.h"
#include "trireme/comm/patterns/pattern.h"
#include "trireme/comm/patterns/stages.h"

namespace trireme::comm {

// Each half of the elements goes up the canonical tree over ranks by a way of its own (algorithm::TreeRole), so that every
// rank adds about as much. Slices are added and gathered directly.
class TreePattern : public Pattern {
 public:
  TreePattern(Transport& transport, const std::vector<int>& ranks, int rank);

  bool keeps_whole() const override { return true; }
  void add_to_all(std::byte* data, const Slices& slices, const Reduction& reduction) override {
    add_whole(data, slices.back().begin + slices.back().bytes, reduction, data);
  }
  // Here `out` may be `data`.
  void add_whole(const std::byte* data, std::size_t bytes, const Reduction& reduction,
                 std::byte* out) override;

 private:
  void add_part(const std::byte* data, std::size_t count, const Stages& stages, std::byte* out);
  int self() const { return static_cast<int>(own()); }

  std::array<algorithm::TreeRole, 2> roles_;  // by half
  std::array<int, 2> up_{}, down_{};          // halves in the order of their turns
  std::array<std::array<std::vector<std::byte>, 2>, 2> addends_;  // of half and side
  std::array<std::vector<std::byte>, 2> results_;
  std::vector<std::byte> leaf_;
};

}  // namespace trireme::comm
