#include "trireme/config/synthetic.h"

#include <algorithm>
#include <array>

#include "trireme/base/error.h"

namespace trireme::config {
namespace {

constexpr std::array kSynthetic = {
    SyntheticSource{
        .source = DataSource::kWords, .name = "words", .version = 1, .facts = {.vocab = 256}},
    SyntheticSource{
        .source = DataSource::kAffine, .name = "affine", .version = 1, .facts = {.vocab = 256}},
    SyntheticSource{
        .source = DataSource::kStripes, .name = "stripes", .version = 1, .facts = {.classes = 5}},
    // "yellow square bottom left, yellow square bottom right" and an end.
    SyntheticSource{.source = DataSource::kScenes,
                    .name = "scenes",
                    .version = 2,
                    .facts = {.vocab = 256},
                    .tokens = 54},
    // Eight directions.
    SyntheticSource{
        .source = DataSource::kSquares, .name = "squares", .version = 1, .facts = {.classes = 8}},
    SyntheticSource{.source = DataSource::kArm, .name = "arm", .version = 1},
    SyntheticSource{.source = DataSource::kQuadrants,
                    .name = "quadrants",
                    .version = 1,
                    .facts = {.vocab = 8, .classes = 4}},
};

}  // namespace

const SyntheticSource* synthetic_source(DataSource source) {
  const auto* found = std::ranges::find(kSynthetic, source, &SyntheticSource::source);
  return found == kSynthetic.end() ? nullptr : found;
}

std::string_view files_of(DataSource source) {
  switch (source) {
    case DataSource::kImages: return "images";
    case DataSource::kPairs: return "pairs";
    case DataSource::kClips: return "clips";
    case DataSource::kTrajectories: return "trajectories";
    default: return {};
  }
}

bool reads_conversations(DataSource source) {
  return source == DataSource::kChat || source == DataSource::kPreferences;
}

bool reads_text(DataSource source) {
  return source == DataSource::kText || reads_conversations(source);
}

bool is_text(DataSource source) {
  return reads_text(source) || source == DataSource::kWords || source == DataSource::kAffine;
}

std::string digest(const SyntheticSource& source) {
  return fmt::format("made up: {}, version {}", source.name, source.version);
}

}  // namespace trireme::config
