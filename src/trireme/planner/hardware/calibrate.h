// Calibration: what `trireme bench calibrate` measures of a machine without GPUs, and the processor that comes of it.
#pragma once

#include <string>
#include <vector>

#include "trireme/base/json.h"
#include "trireme/config/job.h"
#include "trireme/planner/cost/kernels.h"
#include "trireme/planner/hardware/practice.h"

namespace trireme::planner {

// A product alone on one core, of which of the three of a layer.
enum class Pass { kForward, kInput, kWeight };
struct MeasuredProduct {
  Math math = Math::kFp32;
  Pass pass = Pass::kForward;
  double m = 0, n = 0, k = 0;
  double seconds = 0;
};

// Steps of a small model: seconds of every line of rank 0, in the plan's order, and of a whole step.
struct Probe {
  config::Job job;  // resolved
  int ranks = 1;    // 1: the other cores were idle; else as many as there are cores, data parallel
  std::vector<double> lines;
  double step_s = 0;
};

// All ranks at once, one a core.
struct MeasuredCollective {
  std::string transport;  // "threads" or "shm"
  double bytes = 0;       // of an all_reduce
  double seconds = 0;
};

struct Measurements {
  std::string date, cpu, build;  // as of Calibration
  int cores = 1;
  std::int64_t memory = 0;  // bytes that processes could take
  std::vector<MeasuredProduct> products;
  std::vector<Probe> probes;
  std::vector<MeasuredCollective> collectives;
  double process = 0, process_rank = 0;      // as of Core
  double operator_s = 0, operator_rate = 0;  // as of Core
  // The machine's speed that all of this was brought to: of so many ranks that multiply the same at once.
  struct Pulse {
    Math math = Math::kFp32;
    int ranks = 1;
    double seconds = 0;
  };
  std::vector<Pulse> pulses;
};

// Throws Error{kData} beginning with `what`.
Measurements read_measurements(const Json& json, const std::string& what);

// Duration of work that was measured in several rounds while the machine's speed changed. `pulses` are the seconds of
// one fixed set of products, run next to each measurement. Each measurement is scaled to the speed at which these
// products take `usual`. The result is the median of the larger half with the fastest pulses, because a slow machine
// slows some work more than other work.
double at_one_speed(const std::vector<double>& seconds, const std::vector<double>& pulses,
                    double usual);

// How Trireme itself computes on CPUs.
Practice own_practice();
// The same for closed forms, of ranks that all have work: what is exchanged takes the cores that would compute.
Practice cores_practice();

// The curve with the least relative error, none of its constants below 0 (Lawson & Hanson 1974).
ProductCurve fit_products(const std::vector<MeasuredProduct>& products);

// A machine of these cores: `cores` of them in a host, tiers "threads" and "shm". Constants come from products and
// from probes whose lines have the form of `model_kernels`. Throws Error{kData} where something has not been measured.
Cluster fit_machine(const Measurements& measured);

// x >= 0 that minimises |a x - b|, a given by rows.
std::vector<double> least_squares(const std::vector<std::vector<double>>& a,
                                  const std::vector<double>& b);

}  // namespace trireme::planner
