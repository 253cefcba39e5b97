#include "trireme/exec/movement.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

namespace trireme::exec {

Movement::~Movement() {
  // Only an exception on its way comes here with some unfinished; their memory is about to go.
  for (const Part& part : parts_) {
    try {
      part.ticket.wait();
    } catch (const std::exception&) {
    }
  }
}

void Movement::start(scratch::Scratch& scratch, const scratch::Extent& extent, Part part) {
  if (!on_host(part.tensor.device()))
    part.host = part.read ? at::empty(part.tensor.sizes(), part.tensor.options().device(at::kCPU))
                          : part.tensor.to(at::kCPU, part.tensor.scalar_type(),
                                           /*non_blocking=*/false, /*copy=*/true);
  const at::Tensor& memory = part.host.defined() ? part.host : part.tensor;
  const auto bytes = static_cast<std::int64_t>(memory.nbytes());
  part.ticket = part.read ? scratch.read(extent, memory.data_ptr(), bytes)
                          : scratch.write(extent, memory.data_ptr(), bytes);
  parts_.push_back(std::move(part));
}

void Movement::read(scratch::Scratch& scratch, const scratch::Extent& extent, Flat flat) {
  at::Tensor tensor = flat.tensor(0, flat.count());
  start(scratch, extent,
        {.flat = std::move(flat),
         .tensor = std::move(tensor),
         .host = {},
         .read = true,
         .ticket = {}});
}

void Movement::read(scratch::Scratch& scratch, const scratch::Extent& extent, at::Tensor tensor) {
  start(scratch, extent,
        {.flat = {}, .tensor = std::move(tensor), .host = {}, .read = true, .ticket = {}});
}

void Movement::write(scratch::Scratch& scratch, const scratch::Extent& extent, Flat flat) {
  at::Tensor tensor = flat.tensor(0, flat.count());
  start(scratch, extent,
        {.flat = std::move(flat),
         .tensor = std::move(tensor),
         .host = {},
         .read = false,
         .ticket = {}});
}

void Movement::write(scratch::Scratch& scratch, const scratch::Extent& extent, at::Tensor tensor) {
  start(scratch, extent,
        {.flat = {}, .tensor = std::move(tensor), .host = {}, .read = false, .ticket = {}});
}

void Movement::wait() {
  for (Part& part : parts_) {
    part.ticket.wait();
    if (part.read && part.host.defined()) part.tensor.copy_(part.host);
    part.host = at::Tensor();
  }
}

std::vector<Flat> Movement::take() {
  std::vector<Flat> flats;
  for (Part& part : parts_) flats.push_back(std::move(part.flat));
  return flats;
}

double Movement::ended_s(double begun) const {
  double last = begun;
  for (const Part& part : parts_)
    last = std::max(last,
                    std::chrono::duration<double>(part.ticket.ended().time_since_epoch()).count());
  return last;
}

std::vector<scratch::Ticket> Movement::tickets() const {
  std::vector<scratch::Ticket> all;
  for (const Part& part : parts_) all.push_back(part.ticket);
  return all;
}

}  // namespace trireme::exec
