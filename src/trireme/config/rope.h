// Rotary frequencies of decoders (Su et al. 2021) and how published models scale them for longer sequences.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/config/sections/model.h"

namespace trireme::config {

// What model.rope_scaling says. Numbers of other kinds keep their defaults.
struct RopeScaling {
  enum class Kind { kNone, kLinear, kDynamic, kLlama3, kYarn };
  Kind kind = Kind::kNone;
  double factor = 0;    // by which sequences are longer than those of pretraining
  double original = 0;  // tokens of a sequence of pretraining; 0 for linear
  double
      low = 1,
      high =
          4;  // llama3: rotations in these tokens below which frequencies are divided, above which kept
  double fast = 32,
         slow = 1;       // yarn: rotations above which frequencies are kept, below which divided
  double attention = 0;  // yarn: multiplies cosines and sines; 0: 0.1 ln(factor) + 1
  double truncate = 1;   // yarn: 1 if the bounds are rounded to whole frequencies
  bool operator==(const RopeScaling&) const = default;
};

// A number of a kind: its name in model.rope_scaling and in config.json.
struct RopeTerm {
  std::string_view name, published;
  double RopeScaling::*value = nullptr;
  double least = 0, most = 0;
  bool needed = false;
};

std::string_view name(RopeScaling::Kind kind);
std::span<const RopeTerm> rope_terms(RopeScaling::Kind kind);

// A kind and its numbers, such as "llama3 factor=32 original=8192"; empty for none. Throws Error{kUsage}.
RopeScaling parse_rope_scaling(const std::string& text);
// The same as text, without numbers that have their defaults.
std::string print(const RopeScaling& scaling);

struct Rope {
  std::vector<double> frequencies;  // radians a position of channels i and i + head width / 2
  double amplitude = 1;             // of cosines and sines
};
// theta^(-2i / width) for i < width / 2.
std::vector<double> rope_frequencies(double theta, std::int64_t width);
// Of a resolved decoder, scaled for its model.seq_len.
Rope rope_of(const Model& model);

}  // namespace trireme::config
