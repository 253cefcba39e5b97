// Keys of chunks of clips, and of what keeps their embeddings from collapsing.
#pragma once

#include <cstdint>

namespace trireme::config {

// Dynamic chunks of a clip's tokens (docs/models_hvjepa.md).
enum class ChunkMode { kThreshold, kTopK, kFixed };

struct Chunk {
  ChunkMode mode = ChunkMode::kThreshold;
  std::int64_t ratio = 16;  // tokens of a chunk
  std::int64_t hidden = 384;
  std::int64_t heads = 6;
  std::int64_t layers = 2;  // in which tokens attend to neighbours
  bool operator==(const Chunk&) const = default;
};

enum class LocalStatistics { kMatch, kPooled };

// Variance, invariance and covariance of embeddings (Bardes et al. 2022), over a global batch.
struct Vicreg {
  double weight = 0;  // of the loss as a whole; 0: none
  LocalStatistics statistics = LocalStatistics::kMatch;
  std::int64_t width = 64;            // of the expander of clips
  std::int64_t local_width = 64;      // of the expander of chunks
  std::int64_t feature_matches = 20;  // 0: all
  bool operator==(const Vicreg&) const = default;
};

struct HvjepaSections {
  Chunk chunk;
  Vicreg vicreg;
  bool operator==(const HvjepaSections&) const = default;
};

}  // namespace trireme::config
