// trireme-worker evaluate: loss and metrics of a checkpoint on held-out samples, over the ranks of this process.
#include <fmt/core.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "alone.h"
#include "apps/worker/processes.h"
#include "apps/worker/subcommands.h"
#include "trireme/base/clock.h"
#include "trireme/base/error.h"
#include "trireme/base/json.h"
#include "trireme/checkpoint/convert/weights.h"
#include "trireme/data/loaders/source.h"
#include "trireme/train/job_session.h"
#include "trireme/train/run/validation.h"

namespace trireme::app {
namespace {

// Keeps what a validation found. Rank 0 reports progress of long ones.
class KeepEval : public train::Callback {
 public:
  KeepEval(std::optional<train::EvalMetrics>& found, bool reports)
      : found_(found), reports_(reports) {}
  void on_eval_batch(std::int64_t done, std::int64_t all) override {
    constexpr double kEvery = 5;  // seconds
    if (!reports_ || done == all || since_.seconds() < kEvery) return;
    since_.restart();
    const double left =
        begun_.seconds() / static_cast<double>(done) * static_cast<double>(all - done);
    fmt::print(stderr, "evaluated {} of {} batches, {:.0f} s left\n", done, all, left);
  }
  void on_eval(const train::EvalMetrics& metrics) override { found_ = metrics; }

 private:
  std::optional<train::EvalMetrics>& found_;
  bool reports_;
  Stopwatch begun_, since_;
};

train::EvalMetrics evaluate_rank(const config::Job& job, const Arguments& arguments,
                                 comm::World& world) {
  const Path checkpoint = arguments.text("checkpoint");
  const bool training = arguments.text("split") == "train";
  const loaders::Sources sources = loaders::open_sources(
      job, arguments.text("dataset", ""),
      training ? loaders::Evaluated::kTraining : loaders::Evaluated::kHeldOut);
  if (sources.held_out->samples() == 0)
    fail(ErrorKind::kData,
         "{}: nothing is held out of it; evaluate --split train, or set data.validation",
         arguments.text("data"));
  train::JobSession steps(job, world);
  exec::Session& session = steps.session();
  const formats::Manifest manifest = convert::manifest_of_weights(checkpoint);
  load_parameters(checkpoint, manifest, job.model.weights, session);
  std::optional<train::EvalMetrics> found;
  train::Callbacks callbacks;
  callbacks.push_back(std::make_unique<KeepEval>(found, world.rank() == 0));
  train::Validation(job, sources, steps, callbacks).run(manifest.step);
  if (!found)
    fail(ErrorKind::kData, "{}: none of its held-out samples has a loss", arguments.text("data"));
  if (const std::vector<std::string> bad = sources.held_out->bad(); !bad.empty())
    fmt::print(stderr, "trireme: note: {} samples could not be used, the first: {}\n", bad.size(),
               bad.front());
  return *found;
}

void print_figures(const train::EvalMetrics& found) {
  const auto line = [](const std::string& name, const std::string& value) {
    fmt::print("{:<14} {}\n", name, value);
  };
  line("loss", fmt::format("{:.6g}", found.loss));
  if (found.bits_per_byte > 0) line("bits per byte", fmt::format("{:.6g}", found.bits_per_byte));
  for (const auto& [name, value] : found.metrics) line(name, fmt::format("{:.6g}", value));
  line("averaged over", fmt::format("{}", found.tokens));
  line("seconds", fmt::format("{:.2f}", found.seconds));
}

Json json_of(const train::EvalMetrics& found, const Arguments& arguments) {
  Json json{{"checkpoint", arguments.text("checkpoint")},
            {"data", arguments.text("data")},
            {"data_digest", arguments.text("digest")},
            {"split", arguments.text("split")},
            {"step", found.step},
            {"loss", found.loss},
            {"weight", found.tokens},
            {"seconds", found.seconds}};
  if (found.bits_per_byte > 0) json["bits_per_byte"] = found.bits_per_byte;
  for (const auto& [name, value] : found.metrics) json["metrics"][name] = value;
  return json;
}

}  // namespace

int evaluate(const Arguments& arguments) {
  const Path path = arguments.text("job");
  const config::Job job = config::parse_job(read_file(path), path.string());
  std::optional<train::EvalMetrics> found;
  run_ranks_here(arguments.number<int>("ranks", 1), job, [&](comm::World& world) {
    const train::EvalMetrics own = evaluate_rank(job, arguments, world);
    if (world.rank() == 0) found = own;
  });
  print_figures(*found);
  if (arguments.has("json"))
    replace_file(arguments.text("json"), json_of(*found, arguments).dump(1) + "\n");
  return 0;
}

}  // namespace trireme::app
