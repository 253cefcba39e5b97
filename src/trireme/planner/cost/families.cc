#include "trireme/planner/cost/families.h"

#include <fmt/format.h>

#include <array>

#include "trireme/config/families.h"

namespace trireme::planner {
namespace {

double share_percent(const ExpectedShare& share, std::string_view node) {
  return 100 * share.of(node);
}

std::string masks_note(const config::Job&, const ExpectedShare& share) {
  return fmt::format(
      "time is priced at {:.0f} % of a clip's tokens seen, which masks leave on "
      "average; memory at all of them",
      share_percent(share, "block.0"));
}

std::string masked_chunks_note(const config::Job& job, const ExpectedShare& share) {
  return fmt::format(
      "time is priced at one chunk of chunk.ratio={} tokens, of which masks leave "
      "{:.0f} %; memory at as many chunks as tokens",
      job.chunk.ratio, share_percent(share, "embed"));
}

std::string stages_note(const config::Job& job, const ExpectedShare&) {
  return fmt::format(
      "time is priced at one chunk of hnet.ratio={} positions; memory at as many "
      "chunks as positions",
      job.hnet.ratio);
}

std::string tiles_note(const config::Job& job, const ExpectedShare& share) {
  if (share.of("projector") == 1) return "";
  return fmt::format(
      "time is priced at {:.0f} % of the tiles of vlm.max_tiles={}, as if all of "
      "their grids were as likely; memory at all of them",
      share_percent(share, "projector"), job.vlm.max_tiles);
}

std::string regions_note(const config::Job& job, const ExpectedShare&) {
  return fmt::format(
      "time is priced at arrcoc.budget={} tokens an image; memory at the most that "
      "regions can have",
      job.arrcoc.budget);
}

constexpr FamilyPrices kNothing{};
constexpr std::array kPrices = {
    FamilyPrices{.family = config::Family::kHnet,
                 .shares = stage_shares,
                 .note = stages_note,
                 .small_operators = hnet_operators,
                 .extra = BlockExtra{.activated = 4, .turned = 32, .operations = 20},
                 .causal = true},
    FamilyPrices{.family = config::Family::kVlm, .shares = tile_shares, .note = tiles_note},
    FamilyPrices{.family = config::Family::kArrcoc,
                 .shares = region_shares,
                 .note = regions_note,
                 .small_operators = arrcoc_operators},
    FamilyPrices{.family = config::Family::kJepa, .shares = masked_shares, .note = masks_note},
    FamilyPrices{.family = config::Family::kHvjepa,
                 .shares = masked_chunk_shares,
                 .note = masked_chunks_note,
                 .small_operators = hvjepa_operators},
};

}  // namespace

const FamilyPrices& family_prices(config::Family family) {
  const FamilyPrices* found = config::find_entry<FamilyPrices>(kPrices, family);
  return found != nullptr ? *found : kNothing;
}

}  // namespace trireme::planner
