// Folding of long sequences of words for the eye: runs that differ in counting numbers become one.
#pragma once

#include <string>
#include <vector>

namespace trireme::plan {

// Repetitions of one or more neighbouring words become "3x[F0(block0..2) R(block0..2)]" when every number in them is
// constant or counts up or down by one between repetitions. Folded groups fold again.
std::vector<std::string> fold(const std::vector<std::string>& words);

}  // namespace trireme::plan
