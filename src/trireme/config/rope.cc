#include "trireme/config/rope.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <numbers>

#include "trireme/base/error.h"
#include "trireme/config/head_width.h"

namespace trireme::config {
namespace {

using Scaling = RopeScaling;

constexpr double kLeastFactor = 1e-6, kMostFactor = 1 << 20, kMostTokens = 1 << 30;
constexpr RopeTerm kFactor{"factor", "factor", &Scaling::factor, 1, kMostFactor, true};
constexpr RopeTerm kOriginal{
    "original", "original_max_position_embeddings", &Scaling::original, 1, kMostTokens, true};
constexpr std::array kLinearTerms = {kFactor};
constexpr std::array kDynamicTerms = {kFactor, kOriginal};
constexpr std::array kLlama3Terms = {
    kFactor, kOriginal, RopeTerm{"low", "low_freq_factor", &Scaling::low, 1e-6, kMostFactor},
    RopeTerm{"high", "high_freq_factor", &Scaling::high, 1e-6, kMostFactor}};
constexpr std::array kYarnTerms = {
    kFactor,
    kOriginal,
    RopeTerm{"fast", "beta_fast", &Scaling::fast, 1e-6, kMostFactor},
    RopeTerm{"slow", "beta_slow", &Scaling::slow, 1e-6, kMostFactor},
    RopeTerm{"attention", "attention_factor", &Scaling::attention, 0, kMostFactor},
    RopeTerm{"truncate", "truncate", &Scaling::truncate, 0, 1}};

constexpr std::array kLongRopeTerms = {
    kFactor,
    RopeTerm{"original", "original_max_position_embeddings", &Scaling::original, 2, kMostTokens,
             true},  // its logarithm divides
    RopeTerm{"attention", "attention_factor", &Scaling::attention, 0, kMostFactor}};
constexpr std::array kLongRopeLists = {RopeList{"short", "short_factor", &Scaling::short_factors},
                                       RopeList{"long", "long_factor", &Scaling::long_factors}};

struct KindEntry {
  Scaling::Kind kind;
  std::string_view name;
  std::span<const RopeTerm> terms;
  std::span<const RopeList> lists{};
};
constexpr std::array kKinds = {
    KindEntry{Scaling::Kind::kNone, "", {}},
    KindEntry{Scaling::Kind::kLinear, "linear", kLinearTerms},
    KindEntry{Scaling::Kind::kDynamic, "dynamic", kDynamicTerms},
    KindEntry{Scaling::Kind::kLlama3, "llama3", kLlama3Terms},
    KindEntry{Scaling::Kind::kYarn, "yarn", kYarnTerms},
    KindEntry{Scaling::Kind::kLongRope, "longrope", kLongRopeTerms, kLongRopeLists}};

const KindEntry& entry(Scaling::Kind kind) {
  return *std::ranges::find(kKinds, kind, &KindEntry::kind);
}

std::string shortened(const std::string& text) {
  constexpr std::size_t kMost = 60;
  return text.size() <= kMost ? text : text.substr(0, kMost) + "...";
}

[[noreturn]] void refuse_rope(const std::string& text, const std::string& why) {
  fail(ErrorKind::kUsage,
       "model.rope_scaling={}: {}; needs a kind and its numbers, such as linear factor=8, dynamic "
       "factor=2 original=4096, llama3 factor=8 original=8192, yarn factor=4 original=32768 or "
       "longrope factor=32 original=4096 short=1,1.5 long=2,60 with a number for each frequency",
       shortened(text), why);
}

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> all;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    if (end > 0) all.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return all;
}

double read_number(const std::string& text, std::string_view word, std::string_view digits,
                   double least, double most) {
  double value = 0;
  const char* const end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, value);
  if (error != std::errc() || stop != end || !(value >= least && value <= most))
    refuse_rope(text, fmt::format("\"{}\" is not a number from {} to {}", word, least, most));
  return value;
}

void read_term(const std::string& text, std::string_view word, Scaling& scaling) {
  const std::size_t equals = std::min(word.find('='), word.size());
  const std::string_view key = word.substr(0, equals);
  const KindEntry& kind = entry(scaling.kind);
  const auto term = std::ranges::find(kind.terms, key, &RopeTerm::name);
  const auto list = std::ranges::find(kind.lists, key, &RopeList::name);
  if (equals == word.size() || (term == kind.terms.end() && list == kind.lists.end()))
    refuse_rope(text, fmt::format("\"{}\" is no number of {}", word, kind.name));
  std::string_view value = word.substr(equals + 1);
  if (term != kind.terms.end()) {
    scaling.*term->value = read_number(text, word, value, term->least, term->most);
    return;
  }
  std::vector<double>& values = scaling.*list->values;
  values.clear();
  while (true) {
    const std::size_t comma = std::min(value.find(','), value.size());
    const std::string_view one = value.substr(0, comma);
    values.push_back(read_number(text, one, one, kLeastFactor, kMostFactor));
    if (comma == value.size()) return;
    value.remove_prefix(comma + 1);
  }
}

void check_terms(const std::string& text, const Scaling& scaling) {
  for (const RopeTerm& term : rope_terms(scaling.kind))
    if (term.needed && scaling.*term.value == 0)
      refuse_rope(text, fmt::format("{} is missing", term.name));
  for (const RopeList& list : rope_lists(scaling.kind))
    if ((scaling.*list.values).empty()) refuse_rope(text, fmt::format("{} is missing", list.name));
  if (scaling.short_factors.size() != scaling.long_factors.size())
    refuse_rope(text, fmt::format("short has {} numbers and long {}", scaling.short_factors.size(),
                                  scaling.long_factors.size()));
  if (scaling.low >= scaling.high)
    refuse_rope(text, fmt::format("low={} is not below high={}", scaling.low, scaling.high));
  if (scaling.slow >= scaling.fast)
    refuse_rope(text, fmt::format("slow={} is not below fast={}", scaling.slow, scaling.fast));
  if (scaling.truncate != 0 && scaling.truncate != 1)
    refuse_rope(text, fmt::format("truncate={} is neither 0 nor 1", scaling.truncate));
}

// Long waves are divided, short ones kept, those between are interpolated (Llama 3.1).
double llama3(double frequency, const Scaling& scaling) {
  const double rotations = scaling.original * frequency / (2 * std::numbers::pi);
  const double kept = (rotations - scaling.low) / (scaling.high - scaling.low);
  const double share = std::clamp(kept, 0.0, 1.0);
  return (1 - share) * frequency / scaling.factor + share * frequency;
}

// How far a frequency's index is between the last that is kept, 0, and the first that is divided, 1 (Peng et al. 2023).
double yarn_ramp(double index, const Scaling& scaling, double theta, double width) {
  const auto index_of = [&](double rotations) {
    return width * std::log(scaling.original / (2 * std::numbers::pi * rotations)) /
           (2 * std::log(theta));
  };
  double low = index_of(scaling.fast), high = index_of(scaling.slow);
  if (scaling.truncate == 1) low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0), high = std::min(high, width - 1);
  if (low == high) high += 0.001;
  return std::clamp((index - low) / (high - low), 0.0, 1.0);
}

// Of one choice for a whole run (Ding et al. 2024).
const std::vector<double>& divisors_of(const Scaling& scaling, std::int64_t tokens) {
  return static_cast<double>(tokens) <= scaling.original ? scaling.short_factors
                                                         : scaling.long_factors;
}

double amplitude_of(const Scaling& scaling) {
  if (scaling.attention > 0) return scaling.attention;
  if (scaling.kind == Scaling::Kind::kYarn) return 0.1 * std::log(scaling.factor) + 1;
  if (scaling.kind == Scaling::Kind::kLongRope)
    return std::sqrt(1 + std::log(scaling.factor) / std::log(scaling.original));
  return 1;
}

}  // namespace

std::string_view name(RopeScaling::Kind kind) { return entry(kind).name; }
std::span<const RopeTerm> rope_terms(RopeScaling::Kind kind) { return entry(kind).terms; }
std::span<const RopeList> rope_lists(RopeScaling::Kind kind) { return entry(kind).lists; }

RopeScaling parse_rope_scaling(const std::string& text) {
  Scaling scaling;
  const std::vector<std::string_view> all = words_of(text);
  if (all.empty()) return scaling;
  const auto kind = std::ranges::find(kKinds, all[0], &KindEntry::name);
  if (kind == kKinds.end()) refuse_rope(text, fmt::format("\"{}\" is no kind", all[0]));
  scaling.kind = kind->kind;
  for (const std::string_view word : std::span(all).subspan(1)) read_term(text, word, scaling);
  check_terms(text, scaling);
  return scaling;
}

std::string print(const RopeScaling& scaling) {
  std::string text(name(scaling.kind));
  for (const RopeTerm& term : rope_terms(scaling.kind))
    if (scaling.*term.value != Scaling{}.*term.value)
      text += fmt::format(" {}={}", term.name, scaling.*term.value);
  for (const RopeList& list : rope_lists(scaling.kind))
    text += fmt::format(" {}={}", list.name, fmt::join(scaling.*list.values, ","));
  return text;
}

std::vector<double> rope_frequencies(double theta, std::int64_t width) {
  std::vector<double> frequencies;
  for (std::int64_t i = 0; i < width / 2; ++i)
    frequencies.push_back(
        std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(width)));
  return frequencies;
}

std::int64_t rotated_channels(const Model& model, double fraction) {
  return static_cast<std::int64_t>(static_cast<double>(head_width(model)) * fraction);
}

std::vector<double> partial_frequencies(const Model& model, double theta, double fraction) {
  std::vector<double> frequencies = rope_frequencies(theta, rotated_channels(model, fraction));
  frequencies.resize(static_cast<std::size_t>(head_width(model) / 2));
  return frequencies;
}

Rope rope_of(const Model& model, double fraction) {
  const Scaling scaling = parse_rope_scaling(model.rope_scaling);
  const std::int64_t channels = rotated_channels(model, fraction);
  const auto width = static_cast<double>(channels);
  double theta = model.rope_theta;
  if (scaling.kind == Scaling::Kind::kDynamic) {
    const double longer = std::max(static_cast<double>(model.seq_len) / scaling.original, 1.0);
    theta *= std::pow(scaling.factor * longer - (scaling.factor - 1), width / (width - 2));
  }
  Rope rope{.frequencies = partial_frequencies(model, theta, fraction)};
  const std::vector<double>& divisors = divisors_of(scaling, model.seq_len);
  const auto turning = static_cast<std::size_t>(channels / 2);
  if (scaling.kind == Scaling::Kind::kLongRope && divisors.size() != turning)
    refuse_rope(print(scaling),
                fmt::format("short and long have {} numbers for {} frequencies, half of the {} "
                            "channels of a head that turn",
                            divisors.size(), turning, channels));
  for (std::size_t i = 0; i < turning; ++i) {
    double& frequency = rope.frequencies[i];
    if (scaling.kind == Scaling::Kind::kLinear) frequency /= scaling.factor;
    if (scaling.kind == Scaling::Kind::kLlama3) frequency = llama3(frequency, scaling);
    if (scaling.kind == Scaling::Kind::kLongRope) frequency /= divisors[i];
    if (scaling.kind == Scaling::Kind::kYarn) {
      const double ramp = yarn_ramp(static_cast<double>(i), scaling, theta, width);
      frequency = frequency * (1 - ramp) + frequency / scaling.factor * ramp;
    }
  }
  rope.amplitude = amplitude_of(scaling);
  return rope;
}

}  // namespace trireme::config
