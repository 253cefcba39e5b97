// The CSV of a pipeline schedule. What is taken is a grid that runs.
#include "tests/fuzz/target.h"
#include "trireme/plan/schedules/csv.h"

using namespace trireme;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace schedules = schedules;
  fuzz::takes([&] {
    const schedules::Grid grid = schedules::read_csv(fuzz::text_of(data, size));
    schedules::check_grid(grid);
    fuzz::expect(schedules::read_csv(schedules::compute_csv(grid)) == grid, "prints another grid");
  });
  return 0;
}
