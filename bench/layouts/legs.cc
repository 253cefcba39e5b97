#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <mutex>

#include "bench/layouts/pair.h"
#include "tests/harness/job_states.h"
#include "trireme/checkpoint/checkpoint.h"
#include "trireme/comm/local/local_world.h"
#include "trireme/data/loaders/source.h"
#include "trireme/formats/checkpoint_files.h"
#include "trireme/train/job_session.h"

namespace trireme::layouts {
namespace {

using harness::JobTrace;

constexpr double kTimeout = 300;  // s, of a rank for another

struct Leg {
  const config::Job& job;
  int steps;
};

// The legs one behind the other, each from the checkpoint that the one before leaves; all states of the last.
JobTrace run_legs(const std::vector<Leg>& legs, const Path& desk) {
  std::filesystem::create_directories(desk);
  JobTrace trace;
  train::TrainState state;
  int first = 0;
  for (std::size_t l = 0; l < legs.size(); ++l) {
    const Leg& leg = legs[l];
    const bool last = l + 1 == legs.size();
    std::mutex mutex;
    comm::run_local_ranks(ranks_of(leg.job), kTimeout, [&](comm::World& world) {
      train::JobSession session(leg.job, world, desk / "scratch");
      exec::Units& units = session.session().units();
      const auto& specs = session.session().model().spec.units;
      if (first > 0) {
        checkpoint::load(desk / fmt::format("step-{}", first), units, specs);
        units.refresh();
        session.restore(state);
      }
      const auto source = loaders::open_sources(leg.job, {}).train;
      const std::int64_t samples = leg.job.run.micro_batch;
      const train::JobSession::Load load(
          [&](std::int64_t sample) { return source->batch(sample, samples); },
          [&](std::int64_t sample, std::int64_t count) { return source->weight(sample, count); });
      for (int step = first; step < first + leg.steps; ++step) {
        const exec::StepResult result = session.train(step, false, load);
        if (world.rank() > 0) continue;
        trace.losses.push_back(result.loss);
        trace.grad_norms.push_back(result.grad_norm);
      }
      if (!last)
        checkpoint::save(desk, {.step = first + leg.steps, .job = config::print_yaml(leg.job)},
                         units, specs, world);
      const std::lock_guard lock(mutex);
      if (last)
        harness::place_states(session.session(), trace);
      else if (world.rank() == 0)
        state = session.state();
    });
    first += leg.steps;
  }
  return trace;
}

std::string first_difference(const JobTrace& a, const JobTrace& b) {
  for (std::size_t step = 0; step < a.losses.size(); ++step) {
    if (a.losses[step] != b.losses[step])
      return fmt::format("loss of step {}: {} and {}", step + 1, a.losses[step], b.losses[step]);
    if (a.grad_norms[step] != b.grad_norms[step])
      return fmt::format("gradient norm of step {}: {} and {}", step + 1, a.grad_norms[step],
                         b.grad_norms[step]);
  }
  for (const JobTrace* trace : {&a, &b})
    if (trace->replicas_apart != 0) return "copies of one element on several ranks";
  for (const auto& [name, state] : a.states) {
    const std::vector<double>& other = b.states.at(name);
    for (std::size_t i = 0; i < state.size(); ++i)
      if (state[i] != other[i])
        return fmt::format("{}[{}]: {} and {}", name, i, state[i], other[i]);
  }
  return "";
}

double relative(double a, double b) {
  return a == b ? 0 : std::abs(a - b) / std::max(std::abs(a), std::abs(b));
}

std::string command(const Pair& pair, const Sets& layout, int steps, const char* out) {
  std::string text =
      fmt::format("trireme train recipes/{} --ranks {} --steps {} --out runs/{} --set", pair.recipe,
                  ranks_of(plan_of(pair, layout).job), steps, out);
  for (const Sets* sets : {&pair.model, &layout})
    for (const std::string& set : *sets) text += fmt::format(" '{}'", set);
  return text;
}

}  // namespace

Outcome run(const Pair& pair, const Path& desk) {
  const config::Job one = plan_of(pair, pair.one).job, other = plan_of(pair, pair.other).job;
  const JobTrace a = run_legs({{one, pair.steps}}, desk / "one");
  std::vector<Leg> legs;
  if (pair.before > 0) legs.push_back({one, pair.before});
  legs.push_back({other, pair.steps - pair.before});
  const JobTrace b = run_legs(legs, desk / "other");
  Outcome outcome{.distance = harness::distance(a, b), .first = first_difference(a, b)};
  const auto step = static_cast<std::size_t>(pair.before);
  outcome.one_step = std::max(relative(a.losses[step], b.losses[step]),
                              relative(a.grad_norms[step], b.grad_norms[step]));
  outcome.bits = outcome.first.empty() && a.states.size() == b.states.size();
  return outcome;
}

std::string commands(const Pair& pair) {
  std::string text = "  " + command(pair, pair.one, pair.steps, "one") + "\n";
  if (pair.before > 0) text += "  " + command(pair, pair.one, pair.before, "other") + "\n";
  text += "  " + command(pair, pair.other, pair.steps, "other") + "\n";
  return text + "  trireme checkpoint diff runs/one runs/other\n";
}

}  // namespace trireme::layouts
