// Whether the kernel gives a run what it needs: found out before ranks begin, because LibTorch and ranks that wait for others
// hang or fail without a reason where it does not.
#pragma once

namespace trireme::app {

// Throws Error{kUsage} where the kernel does not start `count` more threads at this moment, all at once. Processes count as
// threads do.
void check_threads(int count);

// Throws Error{kUsage} where this process may not open `count` more files.
void check_descriptors(int count);

}  // namespace trireme::app
