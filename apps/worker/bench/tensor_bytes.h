// How much memory the tensors of one thread take.
#pragma once

#include <cstdint>

namespace trireme::app {

// Counts from the calling thread's construction on what it allocates on the CPU, wherever it is freed. One at a time in
// a thread; install() goes before.
class TensorBytes {
 public:
  TensorBytes();
  ~TensorBytes();
  TensorBytes(const TensorBytes&) = delete;
  TensorBytes& operator=(const TensorBytes&) = delete;

  // Makes LibTorch's CPU allocator, whichever it is, report. Once a process.
  static void install();

  // The most bytes at one time since the construction or the last call.
  std::int64_t take_peak();
};

}  // namespace trireme::app
