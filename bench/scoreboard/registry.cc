#include "bench/scoreboard/registry.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "bench/scoreboard/money.h"
#include "bench/scoreboard/tolerant.h"

namespace trireme::scoreboard {

// Each is defined beside its scorer.
Table zero_model_states_table();
Table korthikanti_memory_table();
Table zero_bubble_rates_table();
Table zero_bubble_throughput_table();
Table zero_bubble_more_table();
Table controllable_memory_table();
Table gpipe_table();
Table zero_claims_table();
Table long_context_table();
Table bloom_memory_table();
Table torchtitan_memory_table();
Table bigscience_memory_table();
Table mosaicml_memory_table();
Table largest_models_table();
Table network_specs_table();
Table sc21_figures_table();

std::vector<Table> step_time_tables();
std::vector<Table> context_step_time_tables();

std::vector<Table> all_tables() {
  std::vector<Table> all = {
      zero_model_states_table(),       // Rajbhandari et al. 2020
      korthikanti_memory_table(),      // Korthikanti et al. 2022
      zero_bubble_rates_table(),       // Qi et al. 2023
      zero_bubble_throughput_table(),  // Qi et al. 2023
      zero_bubble_more_table(),        // Qi et al. 2023
      controllable_memory_table(),     // Qi et al. 2024
      gpipe_table(),                   // Huang et al. 2019
      zero_claims_table(),             // Rajbhandari et al. 2020, Wang et al. 2023
      long_context_table(),            // Liu et al. 2023
      largest_models_table(),          // Rajbhandari et al. 2020
      bloom_memory_table(),            // BigScience 2022
      bigscience_memory_table(),       // BigScience 2021
      torchtitan_memory_table(),       // torchtitan 2024
      mosaicml_memory_table(),         // MosaicML 2023
      end_to_end_cost_table(pretraining_flops),
      cloud_prices_table(),
      checkpoint_async_table(),
      reliability_stats_table(),
      network_specs_table(),
      sc21_figures_table(),  // Narayanan et al. 2021
  };
  const auto tolerate = [](Table& table) {
    const std::string& quantity = table.abilities.front().quantity;
    table.cases = tolerant(table.cases, quantity);
    if (table.left_out) table.left_out = tolerant(table.left_out, quantity);
  };
  for (Table& table : all) tolerate(table);
  // A file may hold times and memory: one table with the abilities of both.
  std::vector<Table> timed = step_time_tables();
  std::ranges::move(context_step_time_tables(), std::back_inserter(timed));
  for (Table& times : timed) {
    tolerate(times);
    const auto same = std::ranges::find(all, times.name, &Table::name);
    if (same == all.end()) {
      all.push_back(std::move(times));
      continue;
    }
    same->abilities.insert(same->abilities.begin(), times.abilities.begin(), times.abilities.end());
    same->cases = [first = times.cases, second = same->cases](const Csv& csv) {
      std::vector<Case> cases = first(csv);
      std::ranges::move(second(csv), std::back_inserter(cases));
      return cases;
    };
  }
  return all;
}

}  // namespace trireme::scoreboard
