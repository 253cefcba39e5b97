#include "trireme/planner/cost/device_memory.h"

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

bool fits(const DeviceMemory& memory, double capacity) {
  return memory.needed() <= kUsable * capacity;
}

}  // namespace trireme::planner
