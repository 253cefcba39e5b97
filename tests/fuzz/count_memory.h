// How much memory this program holds by operator new.
#pragma once

#include <cstddef>

namespace trireme::fuzz {

std::size_t held_bytes();
// The most since the last call.
std::size_t take_peak_bytes();

}  // namespace trireme::fuzz
