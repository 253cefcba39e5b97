#include "trireme/job/runs/plan_job.h"

#include <algorithm>
#include <string_view>

#include "trireme/base/error.h"
#include "trireme/config/resolve/outer_steps.h"
#include "trireme/config/synthetic.h"
#include "trireme/model/families/describe.h"
#include "trireme/model/layout.h"
#include "trireme/plan/check/validate.h"
#include "trireme/plan/passes/compile.h"
#include "trireme/plan/unit_sharing.h"

namespace trireme::runs {
namespace {

void check_codes_something(const Planned& planned) {
  const plan::Recipe& recipe = planned.plan.recipe;
  const auto check = [&](bool wanted, bool (*codes)(const plan::Recipe&, const plan::Unit&),
                         std::string_view key, std::string_view codec) {
    if (!wanted || std::ranges::any_of(planned.plan.program.units,
                                       [&](const plan::Unit& unit) { return codes(recipe, unit); }))
      return;
    fail(ErrorKind::kUsage,
         "{}={}: no trained unit has {} parameters{}, from which on codes are sent; set {}=none",
         key, codec, plan::kLeastCoded,
         plan::sums_at_low_rank(recipe) ? " and a matrix that factors halve" : "", key);
  };
  check(recipe.coded.has_value(), plan::codes, "network.codec", planned.job.network.codec);
  check(recipe.gather.has_value(), plan::gathers_codes, "network.gather",
        planned.job.network.gather);
}

void check_cuda(const Place& place) {
#ifndef TRIREME_CUDA
  fail(ErrorKind::kUsage,
       "run.device=cuda, but this build has no CUDA; choose run.device=cpu, or build with a "
       "LibTorch "
       "for CUDA (docs/gpu.md)");
#endif
  if (place.launcher == Launcher::kThreads && place.world > 1)
    fail(ErrorKind::kUsage,
         "run.device=cuda with --ranks {}: autograd has one thread a GPU, in which ranks as "
         "threads would wait for each other forever; start processes, one a GPU: --nproc {}",
         place.world, place.world);
}

}  // namespace

void check_early(const config::Job& job, const Place& place) {
  if (job.run.device == config::Device::kCuda) check_cuda(place);
  if (job.run.find_micro_batch && job.checkpoint.memory_every > 0)
    fail(ErrorKind::kUsage,
         "run.micro_batch=0 with checkpoint.memory_every={}: ranks that restart from memory would "
         "search again and may find another; find it with checkpoint.memory_every=0 under --ranks "
         "or --nproc, then set run.micro_batch",
         job.checkpoint.memory_every);
  if (job.run.find_micro_batch && place.launched() && place.world > 1)
    fail(ErrorKind::kUsage,
         "run.micro_batch=0: the ranks were started by another program, which would have to "
         "start the trial as well; find it with --ranks or --nproc, then set run.micro_batch");
  if (config::finds_delay(job.network) && place.launched() && place.world > 1)
    fail(ErrorKind::kUsage,
         "network.outer={}: hosts that start apart may find different delays; set the one that "
         "trireme explain prints for them, such as delay:3",
         job.network.outer);
  // Without a vocabulary of its own or the data's, any will do to check the rest.
  constexpr std::int64_t kSomeVocab = 65536;  // for data that do not exist yet
  constexpr std::int64_t kSomeClasses = 1000;
  try {
    const config::SyntheticSource* known = config::synthetic_source(job.data.source);
    plan_job(job, place.world,
             known != nullptr ? known->facts
             : !config::files_of(job.data.source).empty()
                 ? config::DatasetFacts{.vocab = 256,
                                        .classes = job.vision.classes == 0 ? kSomeClasses : 0}
                 : config::DatasetFacts{.vocab = job.model.vocab == 0 ? kSomeVocab : 0});
  } catch (const Error& error) {
    // Whether recompute.memory is enough depends on the vocabulary, and on a micro_batch that may be looked for.
    if (error.kind() != ErrorKind::kOutOfMemory) throw;
  }
}

void refuse_search(const config::Job& job, std::string_view command) {
  if (job.run.find_micro_batch)
    fail(
        ErrorKind::kUsage,
        "run.micro_batch=0: only train finds the largest micro-batch; give {} a run.micro_batch of "
        "1 or more",
        command);
  if (config::finds_delay(job.network))
    fail(ErrorKind::kUsage,
         "network.outer={}: only train and explain find the delay; give {} one, such as delay:3",
         job.network.outer, command);
}

Planned plan_job(config::Job job, int world, const config::DatasetFacts& data) {
  Planned planned;
  planned.job = config::resolve(std::move(job), world, data);
  planned.model = model::describe(planned.job);
  planned.plan =
      plan::compile(planned.model.program, model::mesh_of(planned.job),
                    model::recipe_of(planned.job), model::grid_of(planned.job, planned.model));
  plan::validate(planned.plan);
  plan::check_activations_leave(planned.plan);
  check_codes_something(planned);
  return planned;
}

}  // namespace trireme::runs
