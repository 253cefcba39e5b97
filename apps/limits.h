// Whether the kernel gives a run the resources it needs. This is checked before ranks begin, because LibTorch and
// waiting ranks otherwise hang or fail without a reason.
#pragma once

namespace trireme::app {

// Throws Error{kUsage} where the kernel does not start `count` more threads at this moment, all at once. Processes count as
// threads do.
void check_threads(int count);

// Throws Error{kUsage} where this process may not open `count` more files.
void check_descriptors(int count);

// As many descriptors as this user may have: of servers, whose clients each take one.
void raise_descriptors();

}  // namespace trireme::app
