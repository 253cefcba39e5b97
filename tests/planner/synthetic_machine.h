// A calibrated machine of two cores for tests of the planner.
#pragma once

#include <utility>

#include "trireme/planner/hardware/machine.h"

namespace trireme::planner {

// A machine that never was.
inline Calibration synthetic_calibration() {
  Core core{
      .fp32 =
          {.forward = {.rate = 80e9, .left = 1e-9, .right = 0.5e-9, .result = 2e-9, .call_s = 2e-6},
           .input = {.rate = 85e9, .left = 2e-9, .right = 0.5e-9, .result = 1e-9, .call_s = 2e-6},
           .crosswise = {.rate = 70e9, .left = 2e-9, .right = 1e-9, .result = 3e-9, .call_s = 3e-6},
           .attention = 30e9,
           .attention_s = 2e-6,
           .memory_rate = 8e9,
           .kernel_s = 5e-6,
           .pulse_s = 0.2,
           .crowded_pulse_s = 0.21},
      .half =
          {.forward = {.rate = 60e9, .left = 1e-9, .right = 2e-9, .result = 1e-9, .call_s = 2e-6},
           .input = {.rate = 75e9, .left = 1e-9, .right = 2e-9, .result = 1e-9, .call_s = 2e-6},
           .crosswise = {.rate = 50e9, .left = 2e-9, .right = 2e-9, .result = 3e-9, .call_s = 4e-6},
           .attention = 20e9,
           .attention_s = 1e-6,
           .memory_rate = 5e9,
           .kernel_s = 7e-6,
           .pulse_s = 0.3,
           .crowded_pulse_s = 0.33},
      .update_rate = 6e9,
      .norm_rate = 3e9,
      .load_rate = 1e8,
      .operator_s = 2e-6,
      .operator_rate = 10e9,
      .step_s = 1e-3,
      .crowding = 1.125,
      .process = 190e6,
      .spread = 0.03};
  Gpu gpu{.name = "cpu core",
          .half_flops = 60e9,
          .fp32_flops = 80e9,
          .memory = std::int64_t{4} << 30,
          .memory_rate = 6e9,
          .cpu = true,
          .core = core};
  gpu.efficiency.shared = 1;
  return {.date = "2026-01-31",
          .cpu = "a \"CPU\"",
          .build = "trireme 0",
          .machine = {.name = "this machine",
                      .gpu = std::move(gpu),
                      .gpus_per_host = 2,
                      .tiers = {{.name = "threads", .rate = 5e9, .latency_s = 1e-6},
                                {.name = "shm", .rate = 4e9, .latency_s = 2e-6}}}};
}

}  // namespace trireme::planner
