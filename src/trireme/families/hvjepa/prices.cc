#include "trireme/families/hvjepa/prices.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "trireme/config/resolve/resolve_towers.h"
#include "trireme/families/hvjepa/model.h"
#include "trireme/families/jepa/keys_masks.h"
#include "trireme/families/jepa/model.h"
#include "trireme/families/jepa/prices.h"
#include "trireme/planner/cost/families.h"

namespace trireme::planner {

namespace {

double chunk_share(const config::Job& job) { return 1.0 / static_cast<double>(job.chunk.ratio); }

// One of chunk.ratio, and all tokens whose neighbours before them are hidden.
Shares masked_chunk_shares(const config::Job& job) {
  const MaskShares masks = mask_shares(job);
  const double chunks = chunk_share(job);
  // Masks hide the same places in all frames, so that only the first has tokens without a neighbour before them.
  const std::int64_t side = job.vision.image / job.vision.patch;
  double alone = 0;
  for (const auto [blocks, scale] : config::mask_rules(job.jepa))
    alone += alone_in_frame(side, blocks, scale) / 2;
  alone *= static_cast<double>(job.vision.tubelet) / static_cast<double>(job.vision.frames);
  return masked(masks, alone + std::max(masks.seen - alone, 0.0) * chunks, chunks, 1.4);
}

std::string masked_chunks_note(const config::Job& job, const ExpectedShare& share) {
  return fmt::format(
      "time is priced at one chunk of chunk.ratio={} tokens, of which masks leave "
      "{:.0f} %; memory at as many chunks as tokens",
      job.chunk.ratio, 100 * share.of("embed"));
}

// Clips of a micro-batch, with their masked views or without.
double clips_of(const config::Job& job, bool views) {
  return static_cast<double>(job.run.micro_batch * (views ? model::kMasks : 1));
}

// blocks_chunks: neighbours, routers, trees by doubling of their reach, and chunks pooled over their rows.
SmallOperators chunks(const config::Job& job, bool teacher) {
  const double tokens = static_cast<double>(model::patch_grid(job.vision).tokens());
  const double reach = std::ceil(std::log2(std::max(2.0, clips_of(job, !teacher) * tokens)));
  const double forward = 125 + reach + (teacher ? 14 : 20);
  return small_operators_of(forward, teacher ? 0 : 100);
}

// blocks_vicreg_loss: views are pooled one by one, and chunks matched sample by sample, to and fro. Most operators have
// two operands, each with a gradient.
SmallOperators vicreg(const config::Job& job) {
  constexpr double kOfView = 5, kOfSample = 42, kOfLoss = 30, kLosses = 5;
  const auto samples = static_cast<double>(config::samples_of_loss(job));
  const double forward = samples * (model::kMasks * kOfView + kOfSample) + kLosses * kOfLoss + 20;
  return small_operators_of(forward, 2 * forward);
}

// The first block of a tower computes the places of chunks, and the predictor's those of targets, mask by mask. Every block
// widens heads by a channel for the sizes of chunks.
SmallOperators hvjepa_operators(const config::Job& job, std::string_view node) {
  constexpr double kPlaces = 15, kTurns = 30, kOfMask = 4, kWidened = 20;
  const double packing = 2 * kPlaces + kOfMask * clips_of(job, true);
  if (node == "chunk") return chunks(job, false);
  if (node == "teacher.chunk") return chunks(job, true);
  if (node == "vicreg") return vicreg(job);
  if (node == "block.0" || node == "teacher.block.0")
    return small_operators_of(kPlaces + kTurns + kWidened, kWidened);
  if (node == "predictor.block.0") return small_operators_of(packing + kTurns, 0);
  if (node.starts_with("block.") || node.starts_with("teacher.block."))
    return small_operators_of(kWidened, kWidened);
  if (node == "predictor.embed" || node == "loss")
    return small_operators_of(packing + kTurns, kTurns);
  return {};
}

}  // namespace

Shares frozen_tower_shares(const config::Job& job) {
  if (!job.vision.chunked) return {};
  const auto of = [share = chunk_share(job)](std::string_view node) {
    return node.starts_with("tower.block.") || node == "tower.norm" ? share : 1;
  };
  return {.of = of, .varies = true};
}

FamilyPrices hvjepa_prices() {
  return {.shares = masked_chunk_shares,
          .note = masked_chunks_note,
          .small_operators = hvjepa_operators};
}

}  // namespace trireme::planner
