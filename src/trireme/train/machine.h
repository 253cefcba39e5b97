// What the trainer measures of the machine it runs on.
#pragma once

#include <cstdint>

#include "trireme/base/dtype.h"
#include "trireme/comm/world.h"

namespace trireme::train {

// FLOP/s of square matrix products that all ranks reach together, measured for a few hundredths of a
// second: the denominator of MFU where no vendor's peak is known. Collective; equal on all ranks.
double measure_peak_flops(DType type, comm::World& world);

// Resident set of this process, MB (10^6 bytes); ranks that are threads share it.
double resident_mb();
// The most it has been since the process began.
double peak_resident_mb();

// Bytes of memory that the machine has left, caches of files counted in; all there are where it does not say.
std::int64_t available_bytes();

}  // namespace trireme::train
