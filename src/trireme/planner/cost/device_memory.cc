#include "trireme/planner/cost/device_memory.h"

#include <algorithm>

namespace trireme::planner {

double DeviceMemory::of(Pool pool) const {
  double sum = 0;
  for (const MemoryTerm& term : terms)
    if (term.pool == pool) sum += term.bytes;
  return sum;
}

double DeviceMemory::term(const std::string& name) const {
  double sum = 0;
  for (const MemoryTerm& term : terms)
    if (term.name == name) sum += term.bytes;
  return sum;
}

double DeviceMemory::allocated() const {
  const double computing =
      of(Pool::kKept) + std::max({of(Pool::kForward) + of(Pool::kBackward),
                                  term("logits and their copies"), of(Pool::kUnit)});
  return of(Pool::kAlways) + std::max(computing, of(Pool::kStep));
}

double DeviceMemory::reserved() const {
  const double kept = of(Pool::kKept) + of(Pool::kHoles);
  const double computing =
      kept + of(Pool::kForward) + std::max(of(Pool::kLoss), of(Pool::kBackward));
  const double step = of(Pool::kStep), unit = of(Pool::kUnit);
  if (expandable) return of(Pool::kAlways) + std::max({computing, kept + unit, step});
  // Copies of the step are as large as units: either takes the other's blocks, neither a layer's.
  return of(Pool::kAlways) + computing + std::max(step, unit);
}

double DeviceMemory::on_device() const { return reserved() + of(Pool::kOutside); }

double DeviceMemory::needed() const { return allocated() + of(Pool::kHoles) + of(Pool::kOutside); }

bool fits(const DeviceMemory& memory, double capacity) {
  return memory.needed() <= kUsable * capacity;
}

}  // namespace trireme::planner
