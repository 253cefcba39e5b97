// Stop signals (base/os/stop.h) that come before a run has begun to train.
#pragma once

namespace trireme::app {

// From now on such a signal ends this process with a line that says so.
void end_on_stop_signals();

// From now on such signals wait until the program that this process becomes takes them.
void hold_stop_signals();

}  // namespace trireme::app
