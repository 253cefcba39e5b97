// What fuzzing begins with: inputs that readers take, made by our own writers.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace trireme::fuzz {

// By name of the target.
std::map<std::string, std::vector<std::string>> seeds();

}  // namespace trireme::fuzz
