// M-RoPE: rotary frequencies that are shared out between time, row and column (Wang et al. 2024, Qwen2-VL).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace trireme::config {

struct Mrope {
  std::array<std::int64_t, 3> sections{};  // frequencies of time, row and column
  bool interleaved = false;
};

// Parses vlm.mrope, which is not empty. Throws Error{kUsage} for what is no such thing.
Mrope parse_mrope(const std::string& text);

// The axis, 0 to 2, whose position rotates each frequency. One section after the other. If interleaved, the i-th
// frequency uses the row where i mod 3 is 1 and the column where it is 2, up to the size of these sections, else time
// (Qwen3-VL).
std::vector<std::int64_t> axes(const Mrope& mrope);

}  // namespace trireme::config
