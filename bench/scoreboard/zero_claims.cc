// What the papers of ZeRO, ZeRO++ and FSDP say of traffic, as far as it follows from the layout alone.
#include <fmt/core.h>

#include "bench/scoreboard/closed_forms.h"
#include "bench/scoreboard/memory_runs.h"

namespace trireme::scoreboard {
namespace {

// The last number of "3M -> 0.75M".
std::optional<double> last_number(const std::string& text) {
  const std::size_t end = text.find_last_of("0123456789");
  if (end == std::string::npos) return {};
  const std::size_t before = text.find_last_not_of("0123456789.", end);
  const std::size_t begin = before == std::string::npos ? 0 : before + 1;
  return number_of(std::string_view(text).substr(begin, end + 1 - begin));
}

std::optional<double> forecast(const std::string& system, const std::string& claim) {
  if (system == "ZeRO" && claim == "DP communication volume, stages 1-2") return zero_traffic(2);
  if (system == "ZeRO" && claim == "DP communication volume, stage 3") return zero_traffic(3);
  if (system != "ZeRO++") return {};
  if (claim.starts_with("cross-node volume")) return zero_pp_traffic();
  if (claim == "communication reduction") return zero_traffic(3) / zero_pp_traffic();
  return {};
}

const char* reason(const std::string& value) {
  return number_of(value) ? "a run whose model, layout or machine the row does not tell"
                          : "no single number";
}

std::vector<Case> zero_claim_cases(const Csv& csv) {
  std::vector<Case> all;
  for (std::size_t row = 0; row < csv.size(); ++row) {
    const std::string &system = csv.text(row, "system"), &claim = csv.text(row, "claim");
    const std::string& value = csv.text(row, "value");
    Case one{.row = system + ": " + claim,
             .quantity = "traffic",
             .unit = "x",
             .group = system,
             .lines = {csv.line(row)}};
    if (std::vector<Case> sizes = offload_cases(system, claim, value); !sizes.empty()) {
      for (Case& size : sizes) {
        size.lines = one.lines;
        all.push_back(std::move(size));
      }
      continue;
    }
    const auto ours = forecast(system, claim), measured = last_number(value);
    if (ours && measured)
      one.forecast = *ours, one.measured = *measured;
    else
      one.unscored = reason(value);
    all.push_back(std::move(one));
  }
  return all;
}

}  // namespace

Table zero_claims_table() {
  return {.name = "zero_offload_fsdp_claims",
          .abilities = {{.quantity = "traffic", .bar = {.largest = 0}},
                        {.quantity = kOffloadQuantity, .bar = {.largest = 15}}},
          .cases = zero_claim_cases};
}

}  // namespace trireme::scoreboard
