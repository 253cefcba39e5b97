#include "gemm_limit.h"

#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>

#include <algorithm>
#include <functional>

#include "trireme/base/clock.h"
#include "trireme/base/cpu.h"
#include "trireme/base/median.h"
#include "trireme/comm/tensor_buffer.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/model/blocks/build.h"
#include "trireme/model/layout.h"
#include "trireme/train/machine.h"

namespace trireme::app {
namespace {

// A node that reads an activation multiplies by its matrices; one that reads only tokens looks them up.
// All of them on every rank, as ranks measure together; a pipeline rank does its own stage's a step.
std::vector<Product> linear_layers(const config::Job& job, const model::ModelSpec& model,
                                   int rank) {
  const mesh::Mesh mesh = model::mesh_of(job);
  const int tp_rank = mesh.coordinate(rank, mesh::Axis::kTp);
  const int stage = mesh.coordinate(rank, mesh::Axis::kPp);
  std::vector<Product> products;
  for (std::size_t node = 0; node < model.program.nodes.size(); ++node) {
    const auto& reads = model.program.nodes[node].reads;
    const bool multiplies = std::any_of(reads.begin(), reads.end(), [&](plan::ValueId value) {
      return model.program.values[value].differentiable;
    });
    if (!multiplies) continue;
    const bool here = model.program.nodes[node].stage == stage;
    for (const model::ParamRef& ref : model.node_params[node]) {
      const model::ParamSpec& param = model.units[ref.unit].params[ref.param];
      const auto shape = model::local_param(param, tp_rank, job.parallel.tp).shape;
      if (shape.size() != 2) continue;
      const auto same = std::find_if(products.begin(), products.end(), [&](const Product& p) {
        return p.out == shape[0] && p.in == shape[1];
      });
      if (same != products.end())
        same->a_step += here;
      else
        products.push_back({.rows = job.run.micro_batch * job.model.seq_len / job.parallel.cp,
                            .in = shape[1],
                            .out = shape[0],
                            .a_step = here});
    }
  }
  for (Product& product : products) product.a_step *= config::accumulation(job);
  return products;
}

double time_of(at::Device device, comm::World& world, const std::function<void()>& product) {
  constexpr double kEnough = 0.3;  // seconds
  constexpr std::size_t kFewest = 3, kMost = 15;
  product();
  train::finish(device);
  world.exchange("ready");
  std::vector<double> seconds;
  const Stopwatch all;
  while (seconds.size() < kFewest || (all.seconds() < kEnough && seconds.size() < kMost)) {
    const Stopwatch watch;
    product();
    train::finish(device);
    seconds.push_back(watch.seconds());
  }
  return median(seconds);
}

}  // namespace

std::vector<Product> measure_products(const config::Job& job, const model::ModelSpec& model,
                                      comm::World& world) {
  const at::NoGradGuard no_grad;
  const at::Device device = blocks::device_of(job);
  const DType compute = job.precision.compute;
  const auto type = at::TensorOptions()
                        .dtype(comm::scalar_type(device.is_cpu() ? product_type(compute) : compute))
                        .device(device);
  std::vector<Product> products = linear_layers(job, model, world.rank());
  for (Product& p : products) {
    const at::Tensor x = at::ones({p.rows, p.in}, type), weight = at::ones({p.out, p.in}, type);
    at::Tensor y = at::linear(x, weight);
    p.forward_s = time_of(device, world, [&] { y = at::linear(x, weight); });
    const at::Tensor dy = at::ones({p.rows, p.out}, type);
    p.input_gradient_s = time_of(device, world, [&] { at::mm(dy, weight); });
    p.weight_gradient_s = time_of(device, world, [&] { at::mm(dy.t(), x); });
  }
  return products;
}

}  // namespace trireme::app
