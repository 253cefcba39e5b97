// The tables of runs that tell what memory they took, or that they ran, or that they did not.
#include "bench/scoreboard/memory_runs.h"

namespace trireme::scoreboard {
namespace {

using RunReader = std::vector<MemoryRun> (*)(const Csv&);

std::vector<Case> all_cases(const std::vector<MemoryRun>& runs) {
  std::vector<Case> all = fits_cases(runs);
  const std::vector<Case> memory = memory_cases(runs);
  all.insert(all.end(), memory.begin(), memory.end());
  return all;
}

// `flagged`: of runs that ran, the share that may be called too large, in percent.
Table table(std::string name, RunReader read, Ability memory, double flagged = 5) {
  Table one{
      .name = std::move(name),
      .abilities = {{.quantity = kRanQuantity,
                     .measure = Measure::kWrong,
                     .bar = {.mape = flagged},
                     .peer = "fits where an estimate is below 80% of the device (Fujii)"},
                    {.quantity = kFailedQuantity, .measure = Measure::kWrong, .bar = {.mape = 0}}},
      .cases = [read](const Csv& csv) { return all_cases(read(csv)); }};
  if (!memory.quantity.empty()) one.abilities.push_back(std::move(memory));
  return one;
}

}  // namespace

Table bloom_memory_table() {
  Table one = table("bloom_topologies_a100", bloom_memory_runs,
                    {.quantity = kMemoryQuantity,
                     .bar = {.mape = 5, .ninth = 10},
                     .peer = "Calculon 11.2 with a fitted constant",
                     .null = "states, kept inputs, one layer, and 17.3 GB"});
  one.left_out = [](const Csv& csv) { return memory_left_out(bloom_memory_runs(csv)); };
  return one;
}

Table torchtitan_memory_table() {
  return table("torchtitan_llama", torchtitan_memory_runs,
               {.quantity = kMemoryQuantity, .bar = {.mape = 5}}, 0);
}

Table bigscience_memory_table() { return table("bigscience_v100_52B", bigscience_memory_runs, {}); }

Table mosaicml_memory_table() { return table("mosaicml_fsdp_mpt", mosaicml_memory_runs, {}, 0); }

}  // namespace trireme::scoreboard
