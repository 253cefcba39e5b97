#include <fmt/format.h>

#include "trireme/planner/cost/families.h"

namespace trireme::planner {
namespace {

std::string masked_chunks_note(const config::Job& job, const ExpectedShare& share) {
  return fmt::format(
      "time is priced at one chunk of chunk.ratio={} tokens, of which masks leave "
      "{:.0f} %; memory at as many chunks as tokens",
      job.chunk.ratio, 100 * share.of("embed"));
}

}  // namespace

FamilyPrices hvjepa_prices() {
  return {.shares = masked_chunk_shares,
          .note = masked_chunks_note,
          .small_operators = hvjepa_operators};
}

}  // namespace trireme::planner
