// Tape: tensors coming and going, added up.
#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
#include <utility>

#include "trireme/base/error.h"

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

// A tensor on a tape: given back, or kept beyond the end of the scope. Its end checks that one of both was said.
class Held {
 public:
  Held(Tape& tape, std::int64_t bytes) : tape_(&tape), bytes_(bytes) { tape.take(bytes); }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  ~Held() noexcept(false) {
    TRIREME_CHECK(tape_ == nullptr || std::uncaught_exceptions() > 0,
                  "{} bytes are neither given back nor kept", bytes_);
  }

  void give() { used()->give(bytes_); }
  void keep() { used(); }

 private:
  Tape* used() {
    TRIREME_CHECK(tape_ != nullptr, "{} bytes are given back or kept twice", bytes_);
    return std::exchange(tape_, nullptr);
  }

  Tape* tape_;
  std::int64_t bytes_;
};

}  // namespace trireme::model
