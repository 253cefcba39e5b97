#include "arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <iterator>
#include <new>

#include "trireme/base/most_held.h"

namespace trireme::app {
namespace {

constexpr std::size_t kPage = std::size_t{4} << 10;
constexpr std::size_t kLarge = std::size_t{12} << 20;

constexpr std::size_t up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

}  // namespace

// Addresses alone, as many as the process may have.
Arena::Arena() {
  for (std::size_t size = std::size_t{1} << 40; size > kArenaGrowth; size /= 2) {
    void* const all =
        ::mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all == MAP_FAILED) continue;
    begin_ = static_cast<std::byte*>(all);
    limit_ = begin_ + size;
    first_ = end_ =
        reinterpret_cast<std::byte*>(up(reinterpret_cast<std::size_t>(all), kArenaGrowth));
    return;
  }
  throw std::bad_alloc();
}

Arena::~Arena() { ::munmap(begin_, static_cast<std::size_t>(limit_ - begin_)); }

void* Arena::take(std::size_t bytes, void* owner) {
  const std::size_t size = up(bytes, kPage);
  std::lock_guard lock(mutex_);
  const bool large = size >= kLarge;
  auto range = large ? last_with(size) : smallest_with(size);
  if (range == free_.end()) range = grow(size);
  const auto [begin, whole] = *range;
  free_.erase(range);
  held_free_ -= whole.held;
  std::byte* const block = large ? begin + (whole.size - size) : begin;
  if (const std::size_t rest = whole.size - size; rest > 0) {
    const std::size_t held = std::min(whole.held, rest);
    free_.emplace(large ? begin : begin + size, Range{.size = rest, .held = held});
    held_free_ += held;
  }
  used_.emplace(block, Used{{.bytes = bytes, .owner = owner}, size});
  used_bytes_ += size;
  most_used_ = std::max(most_used_, used_bytes_);
  release_surplus();
  return block;
}

std::optional<Arena::Block> Arena::give(void* block) {
  std::lock_guard lock(mutex_);
  const auto found = used_.find(static_cast<std::byte*>(block));
  if (found == used_.end()) return std::nullopt;
  const Block given = found->second;
  const std::size_t size = found->second.size;
  held_free_ += size;
  add_free(found->first, {.size = size, .held = size});
  used_bytes_ -= size;
  used_.erase(found);
  return given;
}

std::size_t Arena::extent() const {
  std::lock_guard lock(mutex_);
  return static_cast<std::size_t>(end_ - first_);
}

Arena::Ranges::iterator Arena::smallest_with(std::size_t size) {
  auto best = free_.end();
  for (auto range = free_.begin(); range != free_.end(); ++range)
    if (range->second.size >= size &&
        (best == free_.end() || range->second.size < best->second.size))
      best = range;
  return best;
}

Arena::Ranges::iterator Arena::last_with(std::size_t size) {
  for (auto range = free_.end(); range != free_.begin();)
    if ((--range)->second.size >= size) return range;
  return free_.end();
}

// Joined with the free ranges that it touches.
Arena::Ranges::iterator Arena::add_free(std::byte* begin, Range range) {
  auto next = free_.lower_bound(begin);
  if (next != free_.end() && begin + range.size == next->first) {
    range.size += next->second.size;
    range.held += next->second.held;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second.size == begin) {
      before->second.size += range.size;
      before->second.held += range.held;
      return before;
    }
  }
  return free_.emplace_hint(next, begin, range);
}

void Arena::release_surplus() {
  const std::size_t most = most_held(most_used_);
  while (used_bytes_ + held_free_ > most) {
    const auto range =
        std::ranges::max_element(free_, {}, [](const auto& free) { return free.second.held; });
    release(range, used_bytes_ + held_free_ - most);
  }
}

// Which pages of a range have memory is known only where all have.
void Arena::release(Ranges::iterator range, std::size_t bytes) {
  auto& [begin, free] = *range;
  const std::size_t least = free.held == free.size ? up(bytes, kArenaGrowth) : free.size;
  const std::size_t released = std::min(least, free.size);
  ::madvise(begin + (free.size - released), released, MADV_DONTNEED);
  const std::size_t left = free.held == free.size ? free.size - released : 0;
  held_free_ -= free.held - left;
  free.held = left;
}

// Until the range at the end has space for `size`.
Arena::Ranges::iterator Arena::grow(std::size_t size) {
  const auto last = free_.rbegin();
  const bool open = last != free_.rend() && last->first + last->second.size == end_;
  const std::size_t more = up(size - (open ? last->second.size : 0), kArenaGrowth);
  if (more > static_cast<std::size_t>(limit_ - end_) ||
      ::mprotect(end_, more, PROT_READ | PROT_WRITE) != 0)
    throw std::bad_alloc();
  ::madvise(end_, more, MADV_HUGEPAGE);  // where the kernel has them
  end_ += more;
  return add_free(end_ - more, {.size = more, .held = 0});
}

}  // namespace trireme::app
