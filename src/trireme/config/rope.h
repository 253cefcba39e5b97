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
  enum class Kind { kNone, kLinear, kDynamic, kLlama3, kYarn, kLongRope };
  Kind kind = Kind::kNone;
  double factor = 0;    // by which sequences are longer than those of pretraining
  double original = 0;  // tokens of a sequence of pretraining; 0 for linear
  double
      low = 1,
      high =
          4;  // llama3: rotations in these tokens below which frequencies are divided, above which kept
  double fast = 32,
         slow = 1;       // yarn: rotations above which frequencies are kept, below which divided
  double attention = 0;  // multiplies cosines and sines; 0: yarn 0.1 ln(factor) + 1, longrope
                         // sqrt(1 + ln(factor) / ln(original))
  double truncate = 1;   // yarn: 1 if the bounds are rounded to whole frequencies
  // longrope: divisors of each frequency, for sequences of at most `original` tokens and for longer ones.
  std::vector<double> short_factors{}, long_factors{};
  bool operator==(const RopeScaling&) const = default;
};

// A number of a kind: its name in model.rope_scaling and in config.json.
struct RopeTerm {
  std::string_view name, published;
  double RopeScaling::*value = nullptr;
  double least = 0, most = 0;
  bool needed = false;
};

// A list of a kind, with a number for each frequency; all are needed.
struct RopeList {
  std::string_view name, published;
  std::vector<double> RopeScaling::*values = nullptr;
};

std::string_view name(RopeScaling::Kind kind);
std::span<const RopeTerm> rope_terms(RopeScaling::Kind kind);
std::span<const RopeList> rope_lists(RopeScaling::Kind kind);

// A kind and its numbers, such as "llama3 factor=32 original=8192"; empty for none. Throws Error{kUsage}.
RopeScaling parse_rope_scaling(const std::string& text);
// The same as text, without numbers that have their defaults.
std::string print(const RopeScaling& scaling);

struct Rope {
  // Radians a position of channels i and i + head width / 2; 0 where channels do not turn.
  std::vector<double> frequencies;
  double amplitude = 1;  // of cosines and sines of channels that turn
};
// theta^(-2i / width) for i < width / 2.
std::vector<double> rope_frequencies(double theta, std::int64_t width);
// Channels of a head that turn, rounded down.
std::int64_t rotated_channels(const Model& model, double fraction);
// The same of a head's first channels, with 0 for the others.
std::vector<double> partial_frequencies(const Model& model, double theta, double fraction);
// Of a resolved decoder, scaled for its model.seq_len, which turns a share of each head's channels. Throws Error{kUsage}
// where a list of model.rope_scaling has another number of frequencies.
Rope rope_of(const Model& model, double fraction = 1);

}  // namespace trireme::config
