// Facts about a GPU that only CUDA's own interface gives; compiled where LibTorch has CUDA.
#pragma once

#include <cstdint>
#include <string>

namespace trireme::train {

// Name of this thread's device in the driver: "NVIDIA H200". Fails without CUDA: device_of(job) has refused such a job.
std::string gpu_name();

// The most bytes LibTorch has held on this thread's device since the process began, or since a restart.
std::int64_t gpu_peak_bytes();
void restart_gpu_peak();

}  // namespace trireme::train
