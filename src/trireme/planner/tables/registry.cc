#include "trireme/planner/tables/registry.h"

namespace trireme::planner::tables {

// Each is defined beside its scorer.
Table zero_model_states_table();

std::vector<Table> all_tables() {
  return {
      zero_model_states_table(),
  };
}

}  // namespace trireme::planner::tables
