// Measurements of the machine that the trainer runs on.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "trireme/base/dtype.h"
#include "trireme/comm/world.h"
#include "trireme/train/watch/seen_peaks.h"

namespace trireme::train {

// The denominator of MFU.
struct Peak {
  double flops = 0;  // FLOP/s of all ranks together
  std::string source;
};

// Peak rate of the ranks' GPUs from their data sheets. On a CPU, the fastest square matrix products of each library
// that steps use, on no more cores than there are. They are measured until neither gets faster, for a fifth of a second
// at most; `seen` has faster ones of earlier runs on this CPU. The first rank of a host raises `seen` to the result.
// Collective; equal on all ranks.
Peak find_peak(DType type, c10::Device device, comm::World& world, SeenPeaks& seen);

// FLOP/s of dense matrix products by the vendor's data sheet, of a GPU with this name; nothing where it is not
// known here.
std::optional<double> sheet_flops(std::string_view gpu, DType type);

// Returns when the device has done what this thread has given it.
void finish(c10::Device device);

// Resident set of this process, MB (10^6 bytes); ranks that are threads share it.
double resident_mb();
// The most it has been since the program began.
double peak_resident_mb();
// Anonymous and shared part of the resident set (RssAnon, RssShmem). Pages of libraries, token files and checkpoints
// can be dropped, and depend on the machine's other work. Freed memory is kept, so at the end it is the peak.
double held_mb();
// A field of /proc/self/status in kB, such as "RssFile:", in MB; 0 where it is not there.
double status_mb(std::string_view field);

// Bytes of memory that the machine has left, caches of files counted in; all there are where it does not say.
std::int64_t available_bytes();

}  // namespace trireme::train
