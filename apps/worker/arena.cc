#include "arena.h"

#include <sys/mman.h>

#include <iterator>
#include <new>

namespace trireme::app {
namespace {

constexpr std::size_t kPage = std::size_t{4} << 10;
constexpr std::size_t kGrowth = std::size_t{2} << 20;  // whole huge pages
constexpr std::size_t kLarge = std::size_t{12} << 20;

constexpr std::size_t up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

}  // namespace

// Addresses alone, as many as the process may have.
Arena::Arena() {
  for (std::size_t size = std::size_t{1} << 40; size > kGrowth; size /= 2) {
    void* const all =
        ::mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all == MAP_FAILED) continue;
    begin_ = static_cast<std::byte*>(all);
    limit_ = begin_ + size;
    first_ = end_ = reinterpret_cast<std::byte*>(up(reinterpret_cast<std::size_t>(all), kGrowth));
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
  const auto [begin, room] = *range;
  free_.erase(range);
  std::byte* const block = large ? begin + (room - size) : begin;
  if (room > size) free_.emplace(large ? begin : begin + size, room - size);
  used_.emplace(block, Used{{.bytes = bytes, .owner = owner}, size});
  return block;
}

std::optional<Arena::Block> Arena::give(void* block) {
  std::lock_guard lock(mutex_);
  const auto found = used_.find(static_cast<std::byte*>(block));
  if (found == used_.end()) return std::nullopt;
  const Block given = found->second;
  add_free(found->first, found->second.size);
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
    if (range->second >= size && (best == free_.end() || range->second < best->second))
      best = range;
  return best;
}

Arena::Ranges::iterator Arena::last_with(std::size_t size) {
  for (auto range = free_.end(); range != free_.begin();)
    if ((--range)->second >= size) return range;
  return free_.end();
}

// Joined with the free ranges that it touches.
Arena::Ranges::iterator Arena::add_free(std::byte* begin, std::size_t size) {
  auto next = free_.lower_bound(begin);
  if (next != free_.end() && begin + size == next->first) {
    size += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == begin) {
      before->second += size;
      return before;
    }
  }
  return free_.emplace_hint(next, begin, size);
}

// Until the range at the end has room for `size`.
Arena::Ranges::iterator Arena::grow(std::size_t size) {
  const auto last = free_.rbegin();
  const bool open = last != free_.rend() && last->first + last->second == end_;
  const std::size_t more = up(size - (open ? last->second : 0), kGrowth);
  if (more > static_cast<std::size_t>(limit_ - end_) ||
      ::mprotect(end_, more, PROT_READ | PROT_WRITE) != 0)
    throw std::bad_alloc();
  ::madvise(end_, more, MADV_HUGEPAGE);  // where the kernel has them
  end_ += more;
  return add_free(end_ - more, more);
}

}  // namespace trireme::app
