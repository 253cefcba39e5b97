#include "trireme/planner/tables/registry.h"

#include "trireme/planner/tables/money.h"

namespace trireme::planner::tables {

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

std::vector<Table> all_tables() {
  return {
      zero_model_states_table(),       // Rajbhandari et al. 2020
      korthikanti_memory_table(),      // Korthikanti et al. 2022
      zero_bubble_rates_table(),       // Qi et al. 2023
      zero_bubble_throughput_table(),  // Qi et al. 2023
      zero_bubble_more_table(),        // Qi et al. 2023
      controllable_memory_table(),     // Qi et al. 2024
      gpipe_table(),                   // Huang et al. 2019
      zero_claims_table(),             // Rajbhandari et al. 2020, Wang et al. 2023
      long_context_table(),            // Liu et al. 2023
      end_to_end_cost_table(),         // model cards, DeepSeek-V3, llm.c and others
      cloud_prices_table(),
      checkpoint_async_table(),
      reliability_stats_table(),  // Llama 3, RSC
  };
}

}  // namespace trireme::planner::tables
