// GradientTape: gradients of a block's tensors that exist on the way back; several tensors may share one.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "trireme/model/account/tape.h"

namespace trireme::model {

class GradientTape {
 public:
  GradientTape(Tape& tape, std::size_t tensors) : tape_(tape), of_(tensors) {}

  bool has(int tensor) const { return of_[tensor] != nullptr; }
  // Of memory that the tape has already.
  void begin(int tensor, std::int64_t bytes) {
    of_[tensor] = std::make_shared<std::int64_t>(bytes);
  }
  void share(int from, int to) { of_[to] = of_[from]; }
  // With its last user its memory is given back.
  void drop(int tensor) {
    if (of_[tensor].use_count() == 1) tape_.give(*of_[tensor]);
    of_[tensor].reset();
  }
  // Its memory has become another's, or is counted elsewhere.
  void forget(int tensor) { of_[tensor].reset(); }

 private:
  Tape& tape_;
  std::vector<std::shared_ptr<std::int64_t>> of_;
};

}  // namespace trireme::model
