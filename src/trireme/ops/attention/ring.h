// Ring: ranks that each pass a tensor to the next and get one from the previous.
#pragma once

#include <ATen/core/Tensor.h>

#include "trireme/comm/group.h"
#include "trireme/ops/tensor_parallel_rows.h"

namespace trireme::ops {

// A message to the next rank and one from the previous, under way.
struct Shift {
  Pending sent = Pending(), received = Pending();
  void wait() {
    sent.wait();
    received.wait();
  }
};

class Ring {
 public:
  // With a second group of the same ranks, neighbours send in different lanes: a rank's send and receive need not wait
  // for each other. Both outlive it.
  explicit Ring(comm::Group& group, comm::Group* lane = nullptr)
      : group_(group), lane_(lane != nullptr ? *lane : group) {}

  int size() const { return group_.size(); }
  int rank() const { return group_.rank(); }
  // Whose tensor this rank holds when all have passed theirs on `steps` times.
  int owner(int steps) const { return (rank() - steps + size()) % size(); }

  // Neither tensor may be written, nor `to` be read, until the shift was waited for.
  Shift start(const at::Tensor& from, const at::Tensor& to) const;

 private:
  comm::Group& lane_of(int sender) const { return sender % 2 == 0 ? group_ : lane_; }

  comm::Group& group_;
  comm::Group& lane_;
};

}  // namespace trireme::ops
