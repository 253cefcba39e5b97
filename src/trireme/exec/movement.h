// Movement: what one line of the lanes h2d and d2h has on its way between memory and where it waits.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "trireme/base/scratch/scratch.h"
#include "trireme/exec/units/flat.h"

namespace trireme::exec {

// Owns the memory that moves until it has ended; what is on another device goes through host memory.
class Movement {
 public:
  Movement() = default;
  Movement(Movement&&) = default;
  Movement& operator=(Movement&&) = delete;
  ~Movement();

  // Brings the first bytes of an extent into all of the memory; take() or tensor() hands it back.
  void read(scratch::Scratch& scratch, const scratch::Extent& extent, Flat flat);
  void read(scratch::Scratch& scratch, const scratch::Extent& extent, at::Tensor tensor);
  // Sends it away; gone with the movement.
  void write(scratch::Scratch& scratch, const scratch::Extent& extent, Flat flat);
  void write(scratch::Scratch& scratch, const scratch::Extent& extent, at::Tensor tensor);

  // Throws the Error of what failed.
  void wait();
  // After wait(): what was read, in the order of read().
  std::vector<Flat> take();
  at::Tensor tensor() { return std::move(parts_.front().tensor); }
  // After wait(): when the last of it had ended, in seconds of the monotonic clock; `begun` where nothing had to move.
  double ended_s(double begun) const;
  // For code elsewhere that must wait for it as well.
  std::vector<scratch::Ticket> tickets() const;

 private:
  struct Part {
    Flat flat;  // owns tensor's memory, if it is not empty
    at::Tensor tensor;
    at::Tensor host;  // in its place in host memory; undefined where that is the same
    bool read = false;
    scratch::Ticket ticket;
  };
  void start(scratch::Scratch& scratch, const scratch::Extent& extent, Part part);
  std::vector<Part> parts_;
};

}  // namespace trireme::exec
