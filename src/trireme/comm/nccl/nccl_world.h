// NcclWorld: ranks are processes with one CUDA device each; compiled where LibTorch has NCCL.
#pragma once

#include <memory>

#include "trireme/comm/gloo/gloo_world.h"

namespace trireme::comm {

struct NcclConfig {
  RendezvousConfig control;  // how ranks find each other; causes of aborts travel there too
  int local_rank = 0;  // of the CUDA devices this process sees it takes that one, or the only one
};

// As connect_gloo, for buffers in device memory; the device becomes the calling thread's. Operations
// order themselves after what the calling thread's current stream holds; wait() returns when the
// device has finished. Sums follow NCCL's own order: repeatable on one layout, not canonical.
// reduce_scatter needs equal slices. exchange() and host groups go through host memory. Throws
// Error{kUsage} where LibTorch lacks NCCL or the machine the device.
std::unique_ptr<World> connect_nccl(const NcclConfig& config);

}  // namespace trireme::comm
