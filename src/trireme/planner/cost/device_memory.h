// Device memory: the bytes that a training run takes of each GPU, as a sum of named terms.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trireme::planner {

// Whose bytes a term is.
enum class Pool : std::uint8_t {
  kTensors,  // of the plan's fullest line
  kHoles,    // between tensors that wait for backward, too small for others
  kOutside,  // not the allocator's
  kHost
};

struct MemoryTerm {
  std::string name;
  double bytes = 0;
  Pool pool = Pool::kTensors;
};

struct DeviceMemory {
  std::vector<MemoryTerm> terms;

  double of(Pool pool) const;
  double term(const std::string& name) const;  // 0: no such term
  double allocated() const { return of(Pool::kTensors); }
  double reserved() const { return allocated() + of(Pool::kHoles); }  // by the allocator
  double needed() const { return reserved() + of(Pool::kOutside); }   // as nvidia-smi shows it
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
