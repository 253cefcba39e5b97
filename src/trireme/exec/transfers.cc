#include "trireme/exec/transfers.h"

#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>

#include <exception>

#include "trireme/base/error.h"
#include "trireme/comm/tensor_buffer.h"
#include "trireme/plan/text/text.h"
#include "trireme/plan/unit_types.h"

namespace trireme::exec {

using plan::Verb;

Transfers::Transfers(const plan::PlanSet& plan, int rank, const Groups& groups, at::Device device)
    : plan_(plan),
      list_(plan.list(rank)),
      stage_(plan.mesh.coordinate(rank, mesh::Axis::kPp)),
      groups_(groups),
      device_(device) {
  for (const plan::Instr& line : list_)
    if (plan::is_transfer(line) && plan.program.values[line.value].shape.empty())
      fail(
          ErrorKind::kUsage,
          "value {} crosses from one pipeline stage to another, but the model does not declare its "
          "shape; declare it, or keep its writer and readers on one stage",
          plan.program.values[line.value].name);
}

Transfers::~Transfers() {
  // Only an exception on its way comes here with some unfinished; their memory is about to go.
  for (Waiting& one : waiting_) {
    if (!one.transfers.empty())
      groups_.world().abort(fmt::format("stage {} left with transfers unfinished", stage_));
    for (const Transfer& transfer : one.transfers) {
      for (const comm::Ticket& ticket : {transfer.announced, transfer.ticket}) {
        try {
          ticket.wait();
        } catch (const std::exception&) {
        }
      }
    }
  }
}

std::deque<Transfers::Transfer>& Transfers::at(const plan::Queue& queue) {
  for (Waiting& one : waiting_)
    if (one.queue == queue) return one.transfers;
  return waiting_.emplace_back(Waiting{.queue = queue}).transfers;
}

at::ScalarType Transfers::type(const plan::Value& value) const {
  return comm::scalar_type(plan::value_type(plan_.recipe, value));
}

void Transfers::send(int index, at::Tensor tensor) {
  const plan::Value& value = this->value(index);
  const plan::Instr& line = this->line(index);
  TRIREME_CHECK(tensor.scalar_type() == type(value),
                "value {} is of type {} where it leaves its stage, the plan has it in {}",
                value.name, at::toString(tensor.scalar_type()), at::toString(type(value)));
  Transfer transfer{.line = index, .tensor = tensor.contiguous()};
  if (value.varies) {
    const std::int64_t rows = tensor.size(0);
    TRIREME_CHECK(rows <= value.shape[0], "value {} has {} rows, the plan allows {}", value.name,
                  rows, value.shape[0]);
    transfer.rows = at::full({1}, rows, at::kLong);
    transfer.announced =
        groups_.announcements(stage_, line.peer).send(comm::buffer(transfer.rows), 1);
    std::vector<std::int64_t> padding(value.shape.size() * 2);
    padding.back() = value.shape[0] - rows;
    transfer.tensor = at::constant_pad_nd(transfer.tensor, padding);
  }
  TRIREME_CHECK(transfer.tensor.sizes() == at::IntArrayRef(value.shape),
                "value {} is of another shape than the {} that its model declares", value.name,
                plan::shape_text(value.shape));
  transfer.ticket = groups_.channel(stage_, line.peer).send(comm::buffer(transfer.tensor), 1);
  at(plan::queue_of(line)).push_back(std::move(transfer));
}

void Transfers::recv(int index) {
  const plan::Value& value = this->value(index);
  const plan::Instr& line = this->line(index);
  Transfer transfer{
      .line = index,
      .tensor = at::empty(value.shape, at::TensorOptions().dtype(type(value)).device(device_))};
  if (value.varies) {
    transfer.rows = at::empty({1}, at::kLong);
    transfer.announced =
        groups_.announcements(line.peer, stage_).recv(comm::buffer(transfer.rows), 0);
  }
  transfer.ticket = groups_.channel(line.peer, stage_).recv(comm::buffer(transfer.tensor), 0);
  at(plan::queue_of(line)).push_back(std::move(transfer));
}

void Transfers::finish(Transfer& transfer, const Arrived& arrived) const {
  if (transfer.rows.defined()) transfer.announced.wait();
  transfer.ticket.wait();
  at::Tensor tensor = std::move(transfer.tensor);
  if (line(transfer.line).verb == Verb::kSend) return arrived(transfer.line, at::Tensor());
  if (transfer.rows.defined()) tensor = tensor.narrow(0, 0, transfer.rows.item<std::int64_t>());
  arrived(transfer.line, std::move(tensor));
}

void Transfers::settle(int index, const Arrived& arrived) {
  std::deque<Transfer>& queue = at(plan::queue_of(line(index)));
  while (!queue.empty() && queue.front().line <= index) {
    finish(queue.front(), arrived);
    queue.pop_front();
  }
}

void Transfers::settle_all(const Arrived& arrived) {
  for (Waiting& one : waiting_)
    for (; !one.transfers.empty(); one.transfers.pop_front())
      finish(one.transfers.front(), arrived);
}

void Transfers::release(const Arrived& arrived) {
  for (Waiting& one : waiting_) {
    if (one.queue.verb != Verb::kSend) continue;
    while (!one.transfers.empty() && one.transfers.front().announced.done() &&
           one.transfers.front().ticket.done()) {
      finish(one.transfers.front(), arrived);
      one.transfers.pop_front();
    }
  }
}

}  // namespace trireme::exec
