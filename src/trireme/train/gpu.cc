#ifdef TRIREME_CUDA

#include "trireme/train/gpu.h"

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <cuda_runtime_api.h>

namespace trireme::train {

std::string gpu_name() {
  cudaDeviceProp properties;
  C10_CUDA_CHECK(cudaGetDeviceProperties(&properties, c10::cuda::current_device()));
  return properties.name;
}

std::int64_t gpu_peak_bytes() {
  constexpr std::size_t kAllPools = 0;
  return c10::cuda::CUDACachingAllocator::getDeviceStats(c10::cuda::current_device())
      .allocated_bytes[kAllPools]
      .peak;
}

void restart_gpu_peak() {
  c10::cuda::CUDACachingAllocator::resetPeakStats(c10::cuda::current_device());
}

}  // namespace trireme::train

#endif
