// Runs a few steps of one model under some layout, ranks as threads, and returns everything that parity
// compares.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trireme/comm/world.h"
#include "trireme/exec/session.h"
#include "trireme/optim/loss_scaler.h"

namespace trireme::harness {

struct Layout {
  mesh::Degrees degrees;
  plan::Recipe recipe;  // micro_batches included
  int segments = 0;     // what may run again does, so many nodes together; 0: nothing does
  std::string name() const;
};

// What a run leaves behind: one entry a step, and the bytes of every state at the end.
struct Trace {
  std::vector<double> losses;
  std::vector<double> grad_norms;
  std::vector<double> scales;  // of gradients, where there is a scaler
  std::vector<bool> skipped;
  std::vector<std::vector<double>> states;  // unit by unit, kind by kind, unsharded, as doubles
  bool operator==(const Trace&) const = default;
};

struct Subject {
  std::function<exec::Model()> model;
  std::function<std::unique_ptr<exec::Optimizer>()> optimizer;
  // Inputs of one global micro-batch id of one step.
  std::function<std::vector<at::Tensor>(std::int64_t step, std::int64_t micro_batch)> batch;
  double loss_scale = 1;
  double clip = 0;
  std::uint64_t seed = 1;
  std::optional<optim::LossScaleOptions> loss_scaler{};
};

// One rank's part of a run; rank 0 returns the trace. For ranks that are processes.
Trace run_rank(const Subject& subject, const Layout& layout, int steps, comm::World& world);

// All ranks as threads of this process.
Trace run_layout(const Subject& subject, const Layout& layout, int steps);

// Largest relative difference of losses, norms and states (per tensor, Euclidean).
double distance(const Trace& a, const Trace& b);

}  // namespace trireme::harness
