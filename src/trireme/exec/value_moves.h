// ValueMoves: values that leave memory between forward and backward.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <utility>
#include <vector>

#include "trireme/comm/ticket.h"
#include "trireme/exec/away_space.h"
#include "trireme/exec/groups.h"
#include "trireme/exec/movement.h"

namespace trireme::exec {

class ValueMoves {
 public:
  ValueMoves(const plan::PlanSet& plan, const Groups& groups, const AwaySpace& space)
      : plan_(plan), groups_(groups), space_(space) {}
  ~ValueMoves();
  ValueMoves(const ValueMoves&) = delete;
  ValueMoves& operator=(const ValueMoves&) = delete;

  // Takes the tensor; of one that all tp ranks have, this rank keeps its part.
  Movement offload(const plan::Instr& line, at::Tensor tensor);
  Movement reload(const plan::Instr& line);
  // Waits for it.
  at::Tensor finish_reload(const plan::Instr& line, Movement& movement);

 private:
  struct Kept {
    std::vector<std::int64_t> sizes;
    at::TensorOptions options;
    at::Tensor part{};  // shared out over tp
    at::Tensor gathered{};
    comm::Ticket gather{};
  };
  const plan::PlanSet& plan_;
  const Groups& groups_;
  const AwaySpace& space_;
  std::map<std::pair<plan::ValueId, int>, Kept> kept_;
};

}  // namespace trireme::exec
