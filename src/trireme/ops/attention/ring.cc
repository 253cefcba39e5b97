#include "trireme/ops/attention/ring.h"

#include <utility>

#include "trireme/comm/tensor_buffer.h"

namespace trireme::ops {

Shift Ring::start(const at::Tensor& from, const at::Tensor& to) const {
  const int next = (rank() + 1) % size(), previous = owner(1);
  const auto send = [&] {
    return Pending(from, {}, lane_of(rank()).send(comm::buffer(from), next));
  };
  const auto receive = [&] {
    return Pending({}, to, lane_of(previous).recv(comm::buffer(to), previous));
  };
  // A lane's send holds it until the peer receives: if all began with that, none would.
  if (rank() % 2 == 0) {
    Pending sent = send();
    return {.sent = std::move(sent), .received = receive()};
  }
  Pending received = receive();
  return {.sent = send(), .received = std::move(received)};
}

}  // namespace trireme::ops
