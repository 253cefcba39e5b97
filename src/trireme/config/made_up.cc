#include "trireme/config/made_up.h"

#include <algorithm>
#include <array>

#include "trireme/base/error.h"

namespace trireme::config {
namespace {

constexpr std::array kMadeUp = {
    MadeUpSource{
        .source = DataSource::kWords, .name = "words", .version = 1, .facts = {.vocab = 256}},
    MadeUpSource{
        .source = DataSource::kAffine, .name = "affine", .version = 1, .facts = {.vocab = 256}},
    MadeUpSource{
        .source = DataSource::kStripes, .name = "stripes", .version = 1, .facts = {.classes = 5}},
    // "yellow square bottom left, yellow square bottom right" and an end.
    MadeUpSource{.source = DataSource::kScenes,
                 .name = "scenes",
                 .version = 2,
                 .facts = {.vocab = 256},
                 .tokens = 54},
    // Eight directions.
    MadeUpSource{
        .source = DataSource::kSquares, .name = "squares", .version = 1, .facts = {.classes = 8}},
    MadeUpSource{.source = DataSource::kArm, .name = "arm", .version = 1},
    MadeUpSource{.source = DataSource::kQuadrants,
                 .name = "quadrants",
                 .version = 1,
                 .facts = {.vocab = 8, .classes = 4}},
};

}  // namespace

const MadeUpSource* made_up(DataSource source) {
  const auto* found = std::ranges::find(kMadeUp, source, &MadeUpSource::source);
  return found == kMadeUp.end() ? nullptr : found;
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

bool is_text(DataSource source) {
  return source == DataSource::kText || source == DataSource::kWords ||
         source == DataSource::kAffine;
}

std::string digest(const MadeUpSource& source) {
  return fmt::format("made up: {}, version {}", source.name, source.version);
}

}  // namespace trireme::config
