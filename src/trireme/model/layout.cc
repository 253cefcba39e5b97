#include "trireme/model/layout.h"

#include <charconv>

#include "trireme/base/error.h"
#include "trireme/base/fs.h"
#include "trireme/config/optimizers.h"
#include "trireme/config/resolve/coded_sums.h"
#include "trireme/config/resolve/matrix_optimizer.h"
#include "trireme/config/resolve/outer_steps.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/model/account/costs.h"
#include "trireme/plan/compile/partition.h"
#include "trireme/plan/passes/compile.h"
#include "trireme/plan/plan.h"
#include "trireme/plan/schedules/csv.h"

namespace trireme::model {
namespace {

namespace schedules = schedules;

schedules::Schedule schedule_of(const config::Job& job) {
  const std::optional<schedules::Schedule> schedule = schedules::schedule_of(job.parallel.schedule);
  TRIREME_CHECK(schedule.has_value(), "schedule {} has a name in the job only",
                job.parallel.schedule);
  return *schedule;
}

// Contents of the file of parallel.schedule, if it names one.
std::optional<schedules::Grid> given_grid(const config::Job& job) {
  const std::string& file = job.parallel.schedule_file;
  if (file.empty()) return std::nullopt;
  try {
    return schedules::read_csv(read_file(file));
  } catch (const Error& error) {
    fail(error.kind(), "parallel.schedule={}: {}", file, error.what());
  }
}

plan::Pipeline pipeline_of(const config::Job& job) {
  const config::Parallel& parallel = job.parallel;
  if (const std::optional<schedules::Grid> grid = given_grid(job))
    return {.placement = grid->placement, .ranks = parallel.pp, .chunks = grid->chunks};
  const schedules::Schedule schedule = schedule_of(job);
  return {.placement = schedules::placement_of(schedule),
          .ranks = parallel.pp,
          .chunks = schedules::chunks_of(schedule, parallel.virtual_stages)};
}

// "3,3,4"
plan::Cuts parse_cuts(const std::string& text, const plan::Program& program, int stages) {
  const auto nodes = static_cast<int>(program.nodes.size());
  plan::Cuts cuts;
  std::int64_t sum = 0;
  const char* at = text.data();
  const char* const end = at + text.size();
  for (bool more = true; more;) {
    int count = 0;
    const auto [stop, error] = std::from_chars(at, end, count);
    more = error == std::errc() && stop != end && *stop == ',';
    if (error != std::errc() || (stop != end && !more) || count < 1 || count > nodes)
      fail(ErrorKind::kUsage,
           "parallel.stages={}: needs auto, or the nodes of each stage from 1 to {}, such as 3,3,4",
           text, nodes);
    cuts.push_back(count);
    sum += count;
    at = stop + 1;
  }
  if (static_cast<int>(cuts.size()) != stages || sum != nodes)
    fail(ErrorKind::kUsage,
         "parallel.stages={} has {} stages of {} nodes together; the pipeline has {} stages and {} "
         "has {} nodes",
         text, cuts.size(), sum, stages, program.name, nodes);
  return cuts;
}

std::optional<plan::CodedSums> coded_sums_of(const config::Job& job) {
  if (!config::codes_sums(job)) return std::nullopt;
  const auto [codec, residual, residuals, back, warmup] = config::sum_codecs(job.network);
  plan::CodedSums sums{.codec = codec::parse(codec),
                       .senders = config::senders(job),
                       .residual = residual,
                       .residuals = residuals};
  if (!back.empty()) sums.back = codec::parse(back);
  return sums;
}

std::optional<plan::CodedGather> coded_gather_of(const config::Job& job) {
  if (!config::codes_gathers(job)) return std::nullopt;
  const auto [codec, within] = config::gather_codec(job.network);
  return plan::CodedGather{.codec = codec::parse(codec), .within = within};
}

std::optional<plan::OuterSteps> outer_of(const config::Network& network) {
  const std::optional<config::OuterSettings> outer = config::outer_settings(network);
  if (!outer) return std::nullopt;
  plan::OuterSteps steps{.islands = outer->islands,
                         .every = outer->every,
                         .fragments = outer->fragments,
                         .delay = outer->delay,
                         .blend = outer->blend,
                         .lr = outer->lr,
                         .momentum = outer->momentum,
                         .residual = outer->residual,
                         .direction = outer->direction};
  if (!outer->codec.empty()) steps.codec = codec::parse(outer->codec);
  if (!outer->back.empty()) steps.back = codec::parse(outer->back);
  return steps;
}

plan::Offload offload_of(const config::Offload& offload) {
  return {.optimizer = offload.optimizer,
          .params = offload.params,
          .grads = offload.grads,
          .activations = offload.activations,
          .ratio = offload.ratio};
}

}  // namespace

mesh::Mesh mesh_of(const config::Job& job) {
  const config::Parallel& parallel = job.parallel;
  const std::optional<config::OuterSettings> outer = config::outer_settings(job.network);
  const int islands = outer ? outer->islands : 1;
  return mesh::Mesh({.pp = parallel.pp,
                     .dp_replicate = parallel.dp_replicate / islands,
                     .dp_shard = parallel.dp_shard,
                     .cp = parallel.cp,
                     .tp = parallel.tp,
                     .island = islands});
}

plan::Recipe recipe_of(const config::Job& job) {
  const config::Precision& precision = job.precision;
  return {.zero = job.parallel.zero,
          .micro_batches = static_cast<int>(config::accumulation(job)),
          .canonical = precision.numerics == config::Numerics::kCanonical,
          .group = static_cast<int>(config::sum_group(job)),
          .clip = job.optim.clip > 0,
          .schedule =
              job.parallel.schedule_file.empty() ? schedule_of(job) : schedules::Schedule::kGiven,
          .activation_limit = job.parallel.activation_limit,
          .compute = precision.compute,
          .master = precision.master.value(),
          .grads = precision.grads.value(),
          .reduce = precision.reduce == precision.grads ? std::nullopt : precision.reduce,
          .coded = coded_sums_of(job),
          .outer = outer_of(job.network),
          .gather = coded_gather_of(job),
          .algorithm = job.network.algorithm,
          .optimizer_states = config::elementwise(job.optim).states,
          .matrix_rounds =
              config::matrix_optimizer(job.optim) == nullptr ? 0 : config::kNewtonSchulzRounds,
          .int8_states = job.optim.states == config::OptimizerStates::kInt8,
          .offload = offload_of(job.offload)};
}

plan::Program place_stages(const config::Job& job, plan::Program program) {
  const config::Parallel& parallel = job.parallel;
  if (!parallel.costs.empty()) read_costs(read_file(parallel.costs), parallel.costs, program);
  const plan::Pipeline pipeline = pipeline_of(job);
  if (pipeline.stages() == 1 && parallel.stages == "auto") return program;
  const plan::Cuts cuts = parallel.stages == "auto"
                              ? plan::balance(program, pipeline, recipe_of(job))
                              : parse_cuts(parallel.stages, program, pipeline.stages());
  return plan::place(std::move(program), cuts, pipeline);
}

schedules::Grid grid_of(const config::Job& job, const ModelSpec& model) {
  if (std::optional<schedules::Grid> grid = given_grid(job)) return *grid;
  return plan::schedule_grid(model.program, mesh_of(job), recipe_of(job));
}

}  // namespace trireme::model
