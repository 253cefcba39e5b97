#include "trireme/planner/tables/registry.h"

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
      zero_model_states_table(),      korthikanti_memory_table(), zero_bubble_rates_table(),
      zero_bubble_throughput_table(), zero_bubble_more_table(),
  };
}

}  // namespace trireme::planner::tables
