// Tape: tensors coming and going, added up.
#pragma once

#include <algorithm>
#include <cstdint>

namespace trireme::model {

// In bytes.
class Tape {
 public:
  void take(std::int64_t bytes) {
    live_ += bytes;
    most_ = std::max(most_, live_);
  }
  void give(std::int64_t bytes) { live_ -= bytes; }
  void pass(std::int64_t bytes) {
    take(bytes);
    give(bytes);
  }
  std::int64_t live() const { return live_; }
  std::int64_t most() const { return most_; }

 private:
  std::int64_t live_ = 0;
  std::int64_t most_ = 0;
};

}  // namespace trireme::model
