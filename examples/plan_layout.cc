// Asks the planner for a layout and prints what it chose: the library as a program of one's own uses it, without LibTorch.
//
//   plan_layout JOB.yaml CLUSTER [GPUS]
#include <fmt/core.h>

#include <charconv>
#include <string_view>

#include "trireme/base/error.h"
#include "trireme/planner/hardware/cluster_file.h"
#include "trireme/planner/search/search.h"

int main(int argc, char** argv) {
  if (argc < 3 || argc > 4) {
    fmt::print(stderr, "plan_layout JOB.yaml CLUSTER [GPUS]\n");
    return 2;
  }
  using namespace trireme;
  int gpus = 0;  // all of the cluster
  if (argc == 4) {
    const std::string_view text = argv[3];
    const auto read = std::from_chars(text.data(), text.data() + text.size(), gpus);
    if (read.ec != std::errc() || read.ptr != text.data() + text.size() || gpus < 1) {
      fmt::print(stderr, "{} GPUs; needs a whole number from 1 on\n", text);
      return 2;
    }
  }
  try {
    const planner::Answer answer = planner::search(
        {.job = config::load_job(argv[1]), .cluster = planner::find_cluster(argv[2]), .gpus = gpus},
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
