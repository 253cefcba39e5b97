// Waiting for whatever happens first.
#pragma once

#include <initializer_list>

namespace trireme::os {

// Blocks until one of the descriptors can be read, at most `seconds`.
void wait(std::initializer_list<int> descriptors, double seconds);

}  // namespace trireme::os
