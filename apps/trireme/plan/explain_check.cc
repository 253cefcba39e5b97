// trireme explain --check: the validator's verdict on a plan's text from any source.
#include <fmt/format.h>

#include <cstdio>

#include "apps/trireme/commands.h"
#include "apps/trireme/json_output.h"
#include "apps/trireme/output.h"
#include "trireme/base/error.h"
#include "trireme/base/fs.h"
#include "trireme/plan/check/validate.h"
#include "trireme/plan/plan.h"

namespace trireme::app {

int explain_check(const ExplainOptions& options) {
  check_output(options.json);
  const JobOptions& job = options.job;
  const bool alone = job.file.empty() && job.phase.empty() && job.assignments.empty() &&
                     !job.ranks && !job.nproc && options.cluster.empty() &&
                     options.format == "text" && !options.rank && !options.memory &&
                     options.fits.empty() && !options.communication;
  if (!alone)
    fail(ErrorKind::kUsage,
         "--check {}: a plan's text holds all that is checked; leave out the job and every other "
         "option",
         options.check);
  plan::PlanSet plan;
  try {
    plan = plan::parse(read_file(options.check));
    plan::validate(plan);
  } catch (const Error& error) {
    // The text is a user's: a plan that cannot run is bad data, and no bug.
    fail(ErrorKind::kData, "{}: {}", options.check, error.what());
  }
  std::size_t lines = 0;
  for (const plan::List& list : plan.lists) lines += list.size();
  write_json(options.json, {{"file", options.check},
                            {"plan", plan.program.name},
                            {"valid", true},
                            {"ranks", plan.list_of_rank.size()},
                            {"lists", plan.lists.size()},
                            {"lines", lines},
                            {"digest", fmt::format("{:016x}", plan::digest(plan))}});
  fmt::print("{}: plan {} is valid: ranks {}, lists {}, lines {}, digest {:016x}\n", options.check,
             plan.program.name, plan.list_of_rank.size(), plan.lists.size(), lines,
             plan::digest(plan));
  return 0;
}

}  // namespace trireme::app
