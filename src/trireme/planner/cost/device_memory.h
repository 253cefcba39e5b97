// Device memory: the bytes that a training run takes of each GPU, as a sum of named terms.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trireme::planner {

// When a term is in memory.
enum class Pool : std::uint8_t {
  kAlways,
  kKept,      // from a forward to its backward
  kHoles,     // between kept tensors, too small for others
  kForward,   // a layer that runs forward, also again
  kLoss,      // from logits to their gradients
  kBackward,  // gradients inside a layer, and of what is reduced at once
  kUnit,      // the largest unit's gradient before it is added to the sum
  kStep,      // from the reduction of gradients to the next forward
  kOutside,   // not the allocator's
  kHost
};

struct MemoryTerm {
  std::string name;
  double bytes = 0;
  Pool pool = Pool::kAlways;
};

struct DeviceMemory {
  int stage = 0;
  std::vector<MemoryTerm> terms;
  bool expandable = false;

  double of(Pool pool) const;
  double term(const std::string& name) const;  // 0: no such term
  double allocated() const;                    // most tensors in use at once
  // Memory that the allocator holds: pools that cannot take each other's blocks add up.
  double reserved() const;
  double on_device() const;  // as nvidia-smi shows it
  // Memory without which the run fails: the allocator gives back cached blocks, not holes.
  double needed() const;
};

// Constants that were fitted to measurements, in addition to facts. docs/planner.md has the rows that each came from.
struct MemoryConstants {
  // Share of holes between kept activations of several micro-batches, if segments do not grow.
  double holes = 0.18;
  double context = 1343.0 * (1 << 20);  // a process that has put one tensor on the device
  double communicator = 0.26e9;  // NCCL's channels and buffers, of each group that a rank is in
  bool operator==(const MemoryConstants&) const = default;
};

// Whether a run on a device of `capacity` bytes does not fail.
inline constexpr double kUsable =
    0.97;  // of it; the rest is lost to rounding of blocks and to small tensors
bool fits(const DeviceMemory& memory, double capacity);

}  // namespace trireme::planner
