#include "tests/fuzz/count_memory.h"

#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

namespace trireme::fuzz {
namespace {

std::atomic<std::size_t> held = 0, peak = 0;

void* count(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  const std::size_t now = held += ::malloc_usable_size(memory);
  for (std::size_t most = peak; most < now && !peak.compare_exchange_weak(most, now);) continue;
  return memory;
}

void release(void* memory) {
  if (memory != nullptr) held -= ::malloc_usable_size(memory);
  std::free(memory);
}

}  // namespace

std::size_t held_bytes() { return held; }
std::size_t take_peak_bytes() { return peak.exchange(held); }

}  // namespace trireme::fuzz

// The array forms and those without exceptions call these.
void* operator new(std::size_t size) {
  return trireme::fuzz::count(std::malloc(size > 0 ? size : 1));
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  const auto unit = static_cast<std::size_t>(alignment);
  return trireme::fuzz::count(std::aligned_alloc(unit, (size + unit - 1) / unit * unit));
}
void operator delete(void* memory) noexcept { trireme::fuzz::release(memory); }
void operator delete(void* memory, std::size_t) noexcept { trireme::fuzz::release(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { trireme::fuzz::release(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  trireme::fuzz::release(memory);
}
