// Keys of V-JEPA 2's pretraining.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace trireme::config {

// The predictor of V-JEPA 2 and what it is trained by.
struct Jepa {
  std::int64_t layers = 12;
  std::int64_t hidden = 384;
  std::int64_t heads = 12;
  std::int64_t mask_tokens = 1;          // 1: both masks share it
  double momentum = 0.99925;             // of the teacher
  std::optional<double> momentum_end{};  // at the last step; none: the same
  std::string masks = "8x0.15,2x0.7";    // families/jepa/keys_masks.h
  std::int64_t cut_batch = 0;            // samples that are cut to one length; 0: none
  bool operator==(const Jepa&) const = default;
};

struct JepaSections {
  Jepa jepa;
  bool operator==(const JepaSections&) const = default;
};

}  // namespace trireme::config
