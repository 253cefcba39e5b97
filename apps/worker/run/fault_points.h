// FaultPoints: faults that `trireme train --faults` asks for, made in the ranks of this process.
#pragma once

#include <memory>
#include <vector>

#include "apps/worker/arguments.h"
#include "trireme/launch/faults/injector.h"
#include "trireme/train/trainer.h"

namespace trireme::app {

class FaultPoints {
 public:
  // For `ranks` threads, or for the one rank that this process is. Without --faults nothing is ever done.
  FaultPoints(const Arguments& arguments, int ranks);

  // All ranks here have come to that stage of their start.
  void start(const char* stage);
  // From now on the rank's record and its disk calls are looked at. Outlives the world.
  void arm(comm::World& world, train::TrainSetup& setup);

 private:
  int first_rank_ = 0;
  std::vector<std::unique_ptr<faults::Injector>> ranks_;
};

}  // namespace trireme::app
