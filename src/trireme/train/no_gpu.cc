#ifndef TRIREME_CUDA

#include "trireme/base/error.h"
#include "trireme/train/gpu.h"

namespace trireme::train {

std::string gpu_name() { TRIREME_CHECK(false, "the name of a GPU in a build without CUDA"); }
std::int64_t gpu_peak_bytes() { TRIREME_CHECK(false, "memory of a GPU in a build without CUDA"); }
void restart_gpu_peak() { TRIREME_CHECK(false, "memory of a GPU in a build without CUDA"); }

}  // namespace trireme::train

#endif
