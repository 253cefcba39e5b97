// Snapshot: copy of a rank's saved state, taken between two steps, so that it can be written while training continues.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <span>
#include <vector>

#include "trireme/exec/units/units.h"

namespace trireme::checkpoint {

// Host memory of its own, from the first take() on.
class Snapshot {
 public:
  // Overwrites the earlier copy, which must not be in use.
  void take(const exec::Units& units, const std::vector<exec::StateSlice>& slices);
  // Bytes of the slice-th slice.
  std::span<const std::byte> bytes(std::size_t slice) const { return parts_[slice]; }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::unique_ptr<std::byte, Free> memory_;
  std::size_t size_ = 0;
  std::vector<std::span<std::byte>> parts_;
};

}  // namespace trireme::checkpoint
