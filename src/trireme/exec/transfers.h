// Transfers: values and gradients on their way between pipeline stages.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <utility>
#include <vector>

#include "trireme/comm/ticket.h"
#include "trireme/exec/groups.h"
#include "trireme/plan/plan.h"

namespace trireme::exec {

class Transfers {
 public:
  // Throws Error{kUsage} if a value crosses stages whose shape the model does not declare.
  Transfers(const plan::PlanSet& plan, int rank, const Groups& groups, at::Device device);
  ~Transfers();
  Transfers(const Transfers&) = delete;
  Transfers& operator=(const Transfers&) = delete;

  // Starts the list's line `index`. A sent tensor is kept until it has left.
  void send(int index, at::Tensor tensor);
  void recv(int index);

  // Waits for everything in the queue of line `index` up to it, and hands over what has come, line by line.
  using Arrived = std::function<void(int index, at::Tensor tensor)>;
  void settle(int index, const Arrived& arrived);
  // Everything; the end of a step.
  void settle_all(const Arrived& arrived);
  // Hands over what has been sent, without waiting.
  void release(const Arrived& arrived);

 private:
  struct Transfer {
    int line = -1;
    at::Tensor tensor;
    comm::Ticket ticket;
    at::Tensor rows{};  // announced; undefined where the shape is fixed
    comm::Ticket announced{};
  };
  struct Waiting {
    plan::Queue queue;
    std::deque<Transfer> transfers{};
  };
  std::deque<Transfer>& at(const plan::Queue& queue);
  const plan::Instr& line(int index) const { return list_[index]; }
  const plan::Value& value(int index) const { return plan_.program.values[line(index).value]; }
  void finish(Transfer& transfer, const Arrived& arrived) const;
  at::ScalarType type(const plan::Value& value) const;

  const plan::PlanSet& plan_;
  const plan::List& list_;
  int stage_;
  const Groups& groups_;
  at::Device device_;
  std::vector<Waiting> waiting_;
};

}  // namespace trireme::exec
