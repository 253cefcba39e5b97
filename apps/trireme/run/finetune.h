// trireme finetune: a published model and conversations become a job that trains.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "trireme/job/runs/read_job.h"

namespace trireme::app {

struct FinetuneOptions {
  runs::JobOptions job;  // keys over those of the recipe, and the number of ranks
  std::string model, data, out;
  bool full = false;                  // all parameters instead of adapters
  std::int64_t rank = 16;             // of the adapters
  std::optional<double> epochs;       // none: 3, and 1 over rollouts
  std::optional<std::int64_t> steps;  // instead of epochs
  std::string cluster;                // empty: the cores of this machine
  bool dry_run = false;               // print the job, write nothing
  bool calibrate = true;              // where nothing is known of this machine
  std::string command;                // all of it, as it was typed
};

int finetune(const FinetuneOptions& options);

}  // namespace trireme::app
