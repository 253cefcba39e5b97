// Memory for large tensors.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <optional>
#include <unordered_map>

namespace trireme::app {

// One range of addresses that grows at its end and keeps its pages. A block is cut from the smallest free range that
// holds it, a large one from the end of the last range. This separates gradients, which stay, from activations, which
// are freed. A freed block joins its free neighbours, so that a step finds the space of the step before, whatever its
// sizes. Where sizes change from step to step, ranges fragment. The arena then returns pages of free ranges to the
// kernel: it holds at most most_held() of its most used bytes. All functions may be called from any thread. Freed with
// its memory.
class Arena {
 public:
  Arena();
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  struct Block {
    std::size_t bytes = 0;  // as asked for
    void* owner = nullptr;  // as given with it
  };

  // At a page's begin, its bytes undefined. Throws std::bad_alloc.
  void* take(std::size_t bytes, void* owner = nullptr);
  // The block; nothing if `block` is not one of this arena's.
  std::optional<Block> give(void* block);
  // Bytes it has grown to.
  std::size_t extent() const;

 private:
  struct Range {
    std::size_t size = 0;
    std::size_t held = 0;  // bytes of it that may have memory
  };
  using Ranges = std::map<std::byte*, Range>;

  Ranges::iterator smallest_with(std::size_t size);
  Ranges::iterator last_with(std::size_t size);
  Ranges::iterator add_free(std::byte* begin, Range range);
  Ranges::iterator grow(std::size_t size);
  void release_surplus();
  void release(Ranges::iterator range, std::size_t bytes);

  mutable std::mutex mutex_;
  Ranges free_;
  struct Used : Block {
    std::size_t size = 0;  // whole pages
  };
  std::unordered_map<std::byte*, Used> used_;
  std::size_t used_bytes_ = 0, most_used_ = 0;
  std::size_t held_free_ = 0;   // bytes of free ranges that may have memory
  std::byte* begin_ = nullptr;  // of the addresses reserved
  std::byte* first_ = nullptr;  // that is used
  std::byte* end_ = nullptr;    // of those that have memory
  std::byte* limit_ = nullptr;
};

}  // namespace trireme::app
