// trireme diff: reads layouts and checks them all; the worker runs and compares.
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "apps/trireme/checkpoint/layouts.h"
#include "apps/trireme/commands.h"
#include "apps/trireme/environment.h"
#include "apps/trireme/output.h"
#include "apps/trireme/summary.h"
#include "apps/trireme/workers.h"
#include "trireme/base/error.h"
#include "trireme/base/json.h"
#include "trireme/config/families.h"
#include "trireme/job/runs/weights.h"

namespace trireme::app {
namespace {

constexpr int kMostRanks = 1024;

// Ranks as the degrees say; more than kMostRanks is an error.
int world_of(const config::Parallel& parallel) {
  const double product = ranks_of(parallel);
  if (product > kMostRanks)
    fail(ErrorKind::kUsage, "{:.0f} ranks as threads; needs {} or fewer", product, kMostRanks);
  return static_cast<int>(product);
}

// The resolved job of one layout.
config::Job planned_layout(const config::Job& job, const std::string& layout,
                           const config::DatasetFacts& data) {
  try {
    const config::Job laid_out = with_layout(job, layout);
    return plan_job(laid_out, world_of(laid_out.parallel), data).job;
  } catch (const Error& error) {
    throw Error(error.kind(), fmt::format("layout '{}': {}", layout, error.what()));
  }
}

// Dropout draws for a micro-batch at once.
void check_noise(const std::vector<config::Job>& jobs) {
  for (const config::Job& job : jobs)
    for (const auto& [key, dropout] : {std::pair("model.dropout", job.model.dropout),
                                       std::pair("lora.dropout", job.lora.dropout)})
      if (dropout > 0 && job.run.micro_batch != jobs[0].run.micro_batch)
        fail(ErrorKind::kUsage,
             "layouts have micro-batches of {} and of {} samples, and {}={} draws other noise for "
             "each; --set {}=0",
             jobs[0].run.micro_batch, job.run.micro_batch, key, dropout, key);
}

// The job in the type that is asked for, whatever it says itself.
config::Job typed_job(const DiffOptions& options) {
  for (const std::string& assignment : options.job.assignments)
    if (assignment.find("precision.compute=") != std::string::npos)
      fail(ErrorKind::kUsage, "{}: both sides compute in --dtype {}; give that instead", assignment,
           options.dtype);
  config::Job job = read_job(options.job);
  refuse_search(job, "diff");
  if (job.run.device != config::Device::kCpu)
    fail(ErrorKind::kUsage,
         "run.device=cuda: ranks that are compared are threads, for CPUs only; set run.device=cpu");
  if (!job.vlm.features.empty())
    fail(ErrorKind::kUsage,
         "vlm.features={}: the tower computes only tiles that are not kept there, and then its "
         "nodes "
         "cannot be compared; --set vlm.features=",
         job.vlm.features);
  if (job.network.outer != config::Network().outer)
    fail(ErrorKind::kUsage,
         "network.outer={}: islands hold other weights from step to step, which no layout has; "
         "--set network.outer=none",
         job.network.outer);
  if (job.optim.from_weights)
    fail(ErrorKind::kUsage,
         "optim.from_weights=true: both sides begin with new optimizer states, of the type that "
         "they are compared in; --set optim.from_weights=false");
  if (!job.model.weights.empty()) job.model.weights = find_weights(job.model.weights).string();
  config::apply_set(job, "precision.compute=" + options.dtype);
  job.precision.master = job.precision.grads = job.precision.reduce = std::nullopt;
  return job;
}

}  // namespace

int diff(const DiffOptions& options) {
  if (options.tolerance && !(std::isfinite(*options.tolerance) && *options.tolerance >= 0))
    fail(ErrorKind::kUsage, "--tolerance {}: needs a finite number, 0 or more", *options.tolerance);
  check_output(options.json);
  config::Job job = typed_job(options);
  Json request{{"steps", options.steps}, {"all", options.all}, {"json", options.json}};
  config::DatasetFacts facts =
      job.model.vocab == 0 ? known_facts(job.data) : config::DatasetFacts{};
  std::string data = "random tokens";
  if (!job.data.path.empty() || job.data.source != config::DataSource::kText) {
    const LocatedDataset located = locate_dataset(job.data, [](const std::string& text) {
      fmt::print("{}\n", text);
      std::fflush(stdout);
    });
    facts = located.facts;
    job = on_data(std::move(job), located);
    request["dataset"] = located.directory.string();
    data = located.what;
  }
  std::vector<std::string> layouts = options.layouts;
  if (options.against || layouts.size() == 1)
    layouts.insert(layouts.begin(), options.against.value_or(""));
  std::vector<config::Job> jobs;
  for (const std::string& layout : layouts) {
    jobs.push_back(planned_layout(job, layout, facts));
    request["layouts"].push_back(
        {{"name", layout.empty() ? "one rank" : layout}, {"job", config::print_yaml(jobs.back())}});
  }
  check_noise(jobs);
  if (options.tolerance) request["tolerance"] = *options.tolerance;
  const std::string tokens =
      config::info(job).chain ? fmt::format(" of {} tokens", job.model.seq_len) : "";
  fmt::print("job       {}: {} step{} of {} samples{}, {}, {}\n", options.job.file, options.steps,
             options.steps == 1 ? "" : "s", job.run.global_batch, tokens, options.dtype, data);
  if (!job.model.weights.empty()) fmt::print("weights   {}\n", job.model.weights);
  become_worker({"diff", "--request", job_in_memory(request.dump())}, {});
}

}  // namespace trireme::app
