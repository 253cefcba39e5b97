// The process's memory: what a step frees is there for the next one.
#pragma once

namespace trireme::app {

// Buffers of a step come and go with the same sizes. Small ones stay with malloc; large ones, which malloc would
// map and fault in anew every time, go through LibTorch's CPU allocator into a list of huge-page mappings. Call
// once, before the first tensor.
void keep_freed_memory();

}  // namespace trireme::app
