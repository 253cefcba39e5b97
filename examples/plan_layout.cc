// Asks the planner for a layout and prints what it chose: the library as a program of one's own uses it, without LibTorch.
//
//   plan_layout JOB.yaml CLUSTER [GPUS]
#include <fmt/core.h>

#include <cstdlib>

#include "trireme/base/error.h"
#include "trireme/planner/cluster_file.h"
#include "trireme/planner/search.h"

int main(int argc, char** argv) {
  if (argc < 3 || argc > 4) {
    fmt::print(stderr, "plan_layout JOB.yaml CLUSTER [GPUS]\n");
    return 2;
  }
  using namespace trireme;
  try {
    const planner::Answer answer = planner::search({.job = config::load_job(argv[1]),
                                                    .cluster = planner::find_cluster(argv[2]),
                                                    .gpus = argc == 4 ? std::atoi(argv[3]) : 0},
                                                   {.options = 1});
    const planner::Option& best = answer.options.front();
    fmt::print("{}: {:.4g} s a step, {:.1f} GiB a GPU\n", planner::text(best.layout), best.seconds,
               planner::needed(answer.question, best) / (1 << 30));
    for (const planner::Reason& reason : answer.reasons) fmt::print("- {}\n", reason.text);
    return 0;
  } catch (const Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return exit_code(error.kind());
  }
}
