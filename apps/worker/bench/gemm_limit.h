// How fast a step would be if nothing but ATen's matrix products took time.
#pragma once

#include <cstdint>
#include <vector>

#include "trireme/comm/world.h"
#include "trireme/config/job.h"
#include "trireme/model/spec.h"

namespace trireme::app {

// The linear layers of one shape: x [rows, in] times weight [out, in] transposed.
struct Product {
  std::int64_t rows = 0;  // tokens of a micro-batch
  std::int64_t in = 0;
  std::int64_t out = 0;
  std::int64_t a_step = 0;       // how often one rank multiplies it forward in a step
  double forward_s = 0;          // at::linear(x, weight)
  double input_gradient_s = 0;   // mm(dy, weight)
  double weight_gradient_s = 0;  // mm(dy^T, x)

  double flop() const { return 2.0 * static_cast<double>(rows * in * out); }  // of one of the three
  double seconds_a_step() const {
    return static_cast<double>(a_step) * (forward_s + input_gradient_s + weight_gradient_s);
  }
};

// Every linear layer of the job's model with the time of each of its products in ATen: the median of repetitions, while
// all ranks do the same. Collective; this rank's own times.
std::vector<Product> measure_products(const config::Job& job, const model::ModelSpec& model,
                                      comm::World& world);

}  // namespace trireme::app
