// Keys of vision-language models: how they see, and what turns features into tokens.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace trireme::config {

enum class ProjectorKind { kLinear, kMlp, kQFormer, kPerceiver, kNone, kMerger };

struct Projector {
  ProjectorKind kind = ProjectorKind::kMlp;
  std::int64_t hidden = 0;  // of a Q-Former or resampler; 0: the tower's
  std::int64_t layers = 6;
  std::int64_t heads = 8;
  std::int64_t queries = 32;
  bool operator==(const Projector&) const = default;
};

// Whose tower a vision-language model has.
enum class VlmTower { kVit, kJepa };
// How an image fills tiles: of two equally good grids, by that with fewer columns (kTall) or rows (kWide), or centred.
enum class VlmFit { kTall, kWide, kPad };

// How a vision-language model sees.
struct Vlm {
  VlmTower tower = VlmTower::kVit;
  std::int64_t layer = -2;     // of the tower, whose output is read; from the end if below 0
  std::int64_t max_tiles = 4;  // of an image, in addition to the one of the whole image
  VlmFit fit = VlmFit::kTall;
  std::string mrope;      // frequencies of time, row and column; empty: one position
  std::string deepstack;  // layers of the tower that the decoder's first ones see as well
  bool pack = false;      // several samples to a row
  bool balance = false;   // samples go to ranks by their work
  std::string features;   // where a frozen tower's features are kept; empty: nowhere
  // Decoder blocks to one that attends to images in place of their tokens (Flamingo), and its heads of 64 channels.
  std::array<std::int64_t, 2> cross = {0, 8};  // 0 blocks: tokens
  // Ids of an image's place and of the end of an answer; -1: those of data.tokenizer.
  std::array<std::int64_t, 2> tokens = {-1, -1};
  bool operator==(const Vlm&) const = default;
};

struct VlmSections {
  Projector projector;
  Vlm vlm;
  bool operator==(const VlmSections&) const = default;
};

}  // namespace trireme::config
