// trireme explain: the plan of a job, proven and priced, without running it.
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "apps/guard.h"
#include "apps/trireme/bench/calibration.h"
#include "apps/trireme/commands.h"
#include "apps/trireme/environment.h"
#include "apps/trireme/json_output.h"
#include "apps/trireme/output.h"
#include "apps/trireme/summary.h"
#include "trireme/base/bytes.h"
#include "trireme/base/error.h"
#include "trireme/base/text.h"
#include "trireme/config/links/links_file.h"
#include "trireme/config/resolve/matrix_optimizer.h"
#include "trireme/job/runs/memory_fit.h"
#include "trireme/job/runs/outer_delay.h"
#include "trireme/model/layout.h"
#include "trireme/model/param_groups.h"
#include "trireme/plan/schedules/csv.h"
#include "trireme/plan/simulate/critical_path.h"
#include "trireme/plan/simulate/footprint.h"
#include "trireme/plan/simulate/numbers.h"
#include "trireme/plan/simulate/pictures/svg.h"
#include "trireme/plan/simulate/pictures/trace.h"
#include "trireme/plan/simulate/rival.h"
#include "trireme/plan/simulate/round.h"
#include "trireme/plan/text/draw.h"
#include "trireme/plan/text/text.h"
#include "trireme/planner/hardware/cluster_file.h"
#include "trireme/planner/hardware/practice.h"
#include "trireme/planner/search/report/question.h"

namespace trireme::app {
namespace {

std::string picture(const plan::PlanSet& plan, const planner::StepForecast& expected,
                    const std::string& format) {
  namespace pictures = simulate::pictures;
  const simulate::Forecast& forecast = expected.lines;
  const std::vector<pictures::Timeline> timelines = pictures::timelines(plan, forecast);
  if (format == "trace") return pictures::trace(plan, timelines).text();
  const plan::Recipe& recipe = plan.recipe;
  return pictures::svg(
      plan, timelines,
      {.title = fmt::format("{}: {}, {} micro-batches, ZeRO-{}", plan.program.name,
                            name(recipe.schedule), recipe.micro_batches, recipe.zero),
       .subtitle =
           expected.step_s == 0
               ? expected.source
               : fmt::format("{:.4g} ms forecast {}, bubble {:.1f}%; {}", 1e3 * expected.step_s,
                             expected.source.starts_with("by") ? expected.source : "(uncalibrated)",
                             100 * forecast.pipeline_bubble, simulate::bound_by(plan, forecast))});
}

std::string actions(const Planned& planned, bool communication) {
  const schedules::Grid grid = model::grid_of(planned.job, planned.model);
  return communication ? lowered_csv(grid) : compute_csv(grid);
}

// Parameters of optim.groups and the others, if there are groups or several optimizers.
std::vector<model::GroupCount> groups_of(const Planned& planned) {
  const config::Optim& optim = planned.job.optim;
  const bool one = optim.groups.empty() && config::matrix_optimizer(optim) == nullptr;
  return one ? std::vector<model::GroupCount>() : model::count_groups(optim, planned.model);
}

std::string groups_text(const Planned& planned) {
  std::string text;
  for (const model::GroupCount& group : groups_of(planned))
    text +=
        fmt::format("{:<10}{}: {} parameters in {}, {}, learning rate x {}, weight decay {:g}\n",
                    text.empty() ? "groups" : "", group.match.empty() ? "others" : group.match,
                    plan::grouped_text(group.parameters), counted(group.tensors, "tensor"),
                    config::info(group.optimizer).key, group.lr, group.weight_decay);
  return text;
}

Json groups_json(const Planned& planned) {
  Json all = Json::array();
  for (const model::GroupCount& group : groups_of(planned))
    all.push_back({{"match", group.match},
                   {"parameters", group.parameters},
                   {"tensors", group.tensors},
                   {"optimizer", config::info(group.optimizer).key},
                   {"lr_mult", group.lr},
                   {"weight_decay", group.weight_decay}});
  return all;
}

planner::RuntimeAs runtime_of(const ExplainOptions& options) {
  return options.as == "today" ? planner::RuntimeAs::kToday : planner::RuntimeAs::kPlanned;
}

// On the cluster that is asked for, else on this machine.
planner::StepForecast expected_of(const Planned& planned, const Place& place,
                                  const ExplainOptions& options) {
  if (options.cluster.empty()) return expect(planned, place);
  planner::Cluster cluster = planner::find_cluster(options.cluster);
  if (!options.links.empty())
    cluster = planner::with_links(std::move(cluster), config::read_links(options.links));
  if (place.world > cluster.gpus())
    fail(ErrorKind::kUsage,
         "{}, but cluster {} has {} of {} = {}; take fewer, or give it more hosts",
         counted(place.world, "rank"), cluster.name, counted(cluster.hosts, "host"),
         cluster.gpus_per_host, cluster.gpus());
  if (const std::string why = planner::unforeseen(planned.job); cluster.gpu.core && !why.empty())
    fail(ErrorKind::kUsage, "--cluster {}: no forecast on it: {}", options.cluster, why);
  const bool gpus = planner::on_gpus(cluster);
  const planner::RuntimeAs as = runtime_of(options);
  const planner::Practice practice = planner::asked(
      planner::practice_of(gpus ? as : planner::RuntimeAs::kPlanned), planned.job, gpus);
  planner::StepForecast forecast =
      planner::forecast_on(planned.plan, planned.job, practice, cluster);
  if (gpus) forecast.source += fmt::format(", {}'s runtime", options.as);
  return forecast;
}

double step_seconds(const Planned& planned, const plan::PlanSet& plan, const Place& place,
                    const ExplainOptions& options) {
  const double expected = expected_of({planned.job, planned.model, plan}, place, options).step_s;
  return expected > 0 ? expected : simulate::simulate(plan, simulate::CostModel{}).step_s;
}

std::optional<simulate::Round> round_of_islands(const Planned& planned, const Place& place,
                                                const ExplainOptions& options) {
  return simulate::round_of(planned.plan, [&](const plan::PlanSet& plan) {
    return step_seconds(planned, plan, place, options);
  });
}

std::string priced(const Planned& planned, const Place& place, const ExplainOptions& options) {
  const planner::StepForecast expected = expected_of(planned, place, options);
  const std::optional<simulate::Round> islands = round_of_islands(planned, place, options);
  const plan::PlanSet& plan = planned.plan;
  const simulate::Forecast& forecast = expected.lines;
  const plan::StepNumbers numbers = numbers_of(planned, expected, 0);
  const plan::MemoryAccount& memory = forecast.lists[plan.list_of_rank.front()].memory;
  Json json = plan::explain_json(plan, 0, memory, numbers);
  json["parameter_groups"] = groups_json(planned);
  if (islands)
    json["islands"] = {{"steps", islands->steps},
                       {"sent_bytes", islands->sent_bytes},
                       {"merging_s", islands->merging_s},
                       {"utilisation", islands->utilisation()}};
  write_json(options.json, json);
  return options.format == "json"
             ? json.dump(1) + "\n"
             : plan::explain_text(plan, 0, memory, numbers) + groups_text(planned) +
                   (islands ? simulate::round_text(*islands) : "");
}

void check_options(const ExplainOptions& options, const Place& place) {
  const bool times = options.format != "plan" && options.format != "csv" && !options.rank &&
                     !options.memory && options.fits.empty();
  if (!options.cluster.empty() && !times)
    fail(ErrorKind::kUsage,
         "--cluster {}: a forecast needs --format text, json, svg or trace, and excludes --rank, "
         "--memory and --fits",
         options.cluster);
  if (options.cluster.empty() && !options.links.empty())
    fail(ErrorKind::kUsage, "--links {}: needs the hosts that it joins; add --cluster NAME",
         options.links);
  if (options.cluster.empty() && options.as != "today")
    fail(ErrorKind::kUsage,
         "--as {}: prices GPUs of a cluster, and none is named; add --cluster NAME", options.as);
  if (options.communication && options.format != "csv")
    fail(ErrorKind::kUsage, "--communication needs --format csv, not {}", options.format);
  const char* const key = options.memory ? "--memory" : "--fits";
  const bool sizes = options.memory || !options.fits.empty();
  if (sizes && options.format != "text" && !(options.memory && options.format == "json"))
    fail(ErrorKind::kUsage, "{} needs --format text{}, not {}", key,
         options.memory ? " or json" : " (json with --memory)", options.format);
  if (sizes && options.rank)
    fail(ErrorKind::kUsage, "{} is about every rank; leave out --rank {}", key, *options.rank);
  if (!options.fits.empty() && !parse_bytes(options.fits))
    fail(ErrorKind::kUsage, "--fits {}: needs a size such as 20GiB, 512MiB or 1e9", options.fits);
  if (!options.json.empty() &&
      (options.rank || (options.format != "text" && options.format != "json")))
    fail(ErrorKind::kUsage, "--json needs the plan's summary or --memory; leave out {}",
         options.rank ? "--rank" : "--format " + options.format);
  check_output(options.json);
  if (options.rank && (*options.rank < 0 || *options.rank >= place.world))
    fail(ErrorKind::kUsage, "--rank {}: the world has ranks 0 to {}", *options.rank,
         place.world - 1);
}

// Memory of every rank, and whether each fits into `fits`.
int explain_memory(const Planned& planned, const Place& place, const ExplainOptions& options) {
  const std::vector<simulate::Footprint> lists =
      footprints(planned, place, find_calibration().calibration);
  const bool json = options.format == "json";
  write_json(options.json, simulate::footprint_json(planned.plan, lists));
  if (options.memory)
    fmt::print("{}", json ? simulate::footprint_json(planned.plan, lists).dump(1) + "\n"
                          : simulate::footprint_text(planned.plan, lists));
  if (options.fits.empty()) return 0;
  if (const auto misfit = simulate::misfit(planned.plan, lists, parse_bytes(options.fits)->count))
    fail(ErrorKind::kOutOfMemory, "{}", *misfit);
  const simulate::Footprint& most = simulate::largest(lists);
  if (!options.memory)
    fmt::print("fits: rank {} needs most, {} of {}\n", most.ranks.front(),
               simulate::needed_text(most), options.fits);
  return 0;
}

// Several GPUs cannot train with the default numerics, so they are explained as they can.
config::Job as_it_can_train(config::Job job, const Place& place) {
  if (job.run.device != config::Device::kCuda || place.world == 1 ||
      job.precision.numerics != config::Numerics::kCanonical)
    return job;
  job.precision.numerics = config::Numerics::kFast;
  job.precision.group = 0;
  print_error("note",
              "run.device=cuda on several ranks trains with precision.numerics=fast only, and is "
              "explained so; train needs the key in the job");
  return job;
}

// A schedule that gains nothing here.
void say_rival(const Planned& planned, const Place& place, const ExplainOptions& options) {
  const auto seconds = [&](const plan::PlanSet& plan) {
    return step_seconds(planned, plan, place, options);
  };
  if (const std::string text = simulate::rival_text(planned.plan, seconds); !text.empty())
    fmt::print("note      {}\n", text);
}

}  // namespace

int explain(const ExplainOptions& options) {
  const Place place = find_place(options.job.ranks, options.job.nproc, mesh::Mesh::kMaxWorld);
  config::Job job = as_it_can_train(read_job(options.job), place);
  check_options(options, place);
  std::string found;
  const config::DatasetFacts facts = known_facts(job.data);
  job = with_found_delay(
      std::move(job), place.world, facts,
      [&](const Planned& planned) { return expected_of(planned, place, options).step_s; },
      [&](const std::string& text) { found = text; });
  const Planned planned = plan_job(job, place.world, facts);
  if (options.memory || !options.fits.empty()) return explain_memory(planned, place, options);
  const plan::PlanSet& plan = planned.plan;
  std::string text;
  if (options.format == "plan")
    text = plan::print(plan);
  else if (options.format == "csv")
    text = actions(planned, options.communication);
  else if (options.format == "svg" || options.format == "trace")
    text = picture(plan, expected_of(planned, place, options), options.format);
  else if (options.format == "text" && options.rank)
    text = plan::rank_text(plan, *options.rank);
  else
    text = priced(planned, place, options);
  if (!options.cluster.empty() && options.format == "text")
    fmt::print("runtime   {}\n",
               planner::describe(runtime_of(options),
                                 planner::on_gpus(planner::find_cluster(options.cluster))));
  std::fwrite(text.data(), 1, text.size(), stdout);
  if (!found.empty() && options.format == "text") fmt::print("find      {}\n", found);
  if (options.format == "text" && !options.rank) say_rival(planned, place, options);
  if (!job.model.weights.empty() && !std::filesystem::exists(job.model.weights) &&
      options.format == "text" && !options.rank)
    fmt::print(
        "note      model.weights={} is not there: keys that the job leaves out have their "
        "defaults here, train would have those of the weights\n",
        job.model.weights);
  if (job.run.find_micro_batch && options.format == "text" && !options.rank)
    fmt::print("note      run.micro_batch={}; train will look for the largest\n",
               planned.job.run.micro_batch);
  return 0;
}

}  // namespace trireme::app
