// The process's memory: what a step frees is there for the next one.
#pragma once

namespace trireme::app {

// Buffers of a step come and go, and the next step wants the same. Small ones stay with malloc, which keeps what is
// freed; large ones, which malloc would scatter among the small, go through LibTorch's CPU allocator into one
// growing stretch of huge pages. Call once, before the first tensor.
void keep_freed_memory();

}  // namespace trireme::app
