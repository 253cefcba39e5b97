// Money: what a run takes in hours, energy and dollars, and where it costs least.
#pragma once

#include <string>
#include <vector>

#include "trireme/planner/hardware/hardware.h"
#include "trireme/planner/hardware/reliability.h"

namespace trireme::planner {

// Seconds of computing `flops` on `gpus` that each reach `flops_per_gpu` a second. For T tokens and P parameters,
// `flops` is 8 TP with recomputed activations and 6 TP without. This is Megatron-LM's training time (arXiv 2104.04473,
// section 5.1).
double train_seconds(double flops, double gpus, double flops_per_gpu);

// A part of a run whose steps are equal: a sequence length, a resolution, a batch size.
struct Phase {
  std::string name;
  double steps = 0;
  double step_s = 0;
  double gpus = 0;
};
struct Length {
  double seconds = 0;
  double gpu_hours = 0;
};
Length length(const std::vector<Phase>& phases);

// Kilowatt hours of `gpus` of the cluster and their hosts for so long, at full load, with what the building adds.
double energy_kwh(const Cluster& cluster, double gpus, double hours);

// A bill is a list of its lines: GPUs, storage, egress, energy.
struct Item {
  std::string name;
  double dollars = 0;
};
double dollars(const std::vector<Item>& items);

// A run as a cloud provider sees it.
struct Rental {
  double useful_hours = 0;  // if nothing stopped it and checkpoints were free
  double gpus = 0;
  Checkpointing checkpoint;
  double deadline_hours = 0;   // 0: none
  std::vector<Item> extras;    // storage, egress
  double dollars_per_kwh = 0;  // 0: in the price of the GPUs
};

// Seconds between the run's checkpoints, at most the length of the run.
double interval_of(const Rental& run, double best_s);

// Total of one of a cluster's prices.
struct Offer {
  std::string provider;
  std::string region;
  bool spot = false;
  double dollars_per_gpu_hour = 0;
  Goodput goodput;
  double hours = 0;  // with stops and checkpoints
  double gpu_hours = 0;
  std::vector<Item> bill;
  bool in_time = true;
};

// Every price on demand and spot: those in time first, then the cheaper, then the faster. Throws Error{kUsage} where the
// cluster has no prices, or the run has no GPUs or hours.
std::vector<Offer> offers(const Cluster& cluster, const Rental& run);

// "gcp us-east1, spot".
std::string name(const Offer& offer);

// A run in parts, each elsewhere.
struct Part {
  Offer offer;
  double share = 1;  // of the useful hours
};
struct Mix {
  std::vector<Part> parts;
  double hours = 0;  // one after the other
  double gpu_hours = 0;
  double dollars = 0;
};
// Parts with these shares, which add up to 1; extras are paid once. Throws Error{kUsage} where they do not.
Mix mix(const Rental& run, const std::vector<Part>& parts);

// The cheapest way that ends in time: one offer, or two of which the dearer one only makes up for the other's delay.
// Throws Error{kUsage} with the shortest time where none does.
Mix cheapest(const Cluster& cluster, const Rental& run);

}  // namespace trireme::planner
