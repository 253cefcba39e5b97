// trireme-worker bench-pipeline: stages that sleep for known times, under every schedule: what the clock says
// against what the simulator says.
#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <sys/prctl.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <thread>

#include "apps/trireme/bench/bench_commands.h"
#include "apps/trireme/json_output.h"
#include "apps/worker/subcommands.h"
#include "trireme/base/clock.h"
#include "trireme/base/fs.h"
#include "trireme/base/json.h"
#include "trireme/base/median.h"
#include "trireme/comm/local/local_world.h"
#include "trireme/exec/session.h"
#include "trireme/plan/compile/partition.h"
#include "trireme/plan/simulate/simulate.h"

namespace trireme::app {
namespace {

using schedules::Schedule;

constexpr double kPipelineTimeout = 600;
constexpr std::int64_t kPipelineWidth = 64;

// To the microsecond: the system wakes sleepers late, so the end is spun.
void sleep(double seconds) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::microseconds kLate(250);
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                      std::chrono::duration<double>(seconds));
  std::this_thread::sleep_until(end - kLate);
  while (Clock::now() < end) std::this_thread::yield();
}

// A stage that computes nothing, for a given time.
struct Sleep : torch::autograd::Function<Sleep> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& weight, double input, double weight_s,
                            const ops::WeightGradientsPtr& gradients, bool loss) {
    context->saved_data["input"] = input;
    context->saved_data["weight"] = weight_s;
    ops::save(context, gradients);
    context->save_for_backward({x, weight});
    return loss ? x.sum() : x.clone();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    const auto saved = context->get_saved_variables();
    sleep(context->saved_data["input"].toDouble());
    const double seconds = context->saved_data["weight"].toDouble();
    const auto work = [weight = saved[1], seconds](const ops::WeightGradientsPtr&) {
      sleep(seconds);
      weight.grad().add_(1);
    };
    const ops::WeightGradientsPtr gradients = ops::saved_weight_gradients(context);
    if (ops::deferring(gradients))
      gradients->push(work);
    else
      work(gradients);
    return {grads[0].expand(saved[0].sizes()).contiguous(), {}, {}, {}, {}, {}};
  }
};

class SleepingBlock : public exec::Block {
 public:
  SleepingBlock(const plan::NodeSeconds& seconds, bool loss) : seconds_(seconds), loss_(loss) {}
  void bind(std::vector<at::Tensor> params) override { weight_ = params[0]; }
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs,
                                  const exec::BlockContext& context) override {
    sleep(seconds_.forward);
    return {Sleep::apply(inputs[0], weight_, seconds_.input, seconds_.weight,
                         context.weight_gradients, loss_)};
  }

 private:
  plan::NodeSeconds seconds_;
  bool loss_;
  at::Tensor weight_;
};

// A stage and node for every chunk of every rank.
exec::Model sleeping_model(int stages, const plan::NodeSeconds& seconds) {
  exec::Model model;
  plan::Program& program = model.spec.program;
  program.name = "sleeping";
  program.values.push_back({.name = "x", .bytes = kPipelineWidth * 4, .differentiable = false});
  for (int s = 0; s < stages; ++s) {
    const std::string name = fmt::format("stage.{}", s);
    const bool loss = s + 1 == stages;
    program.units.push_back({.name = name, .numel = kPipelineWidth});
    program.values.push_back(
        {.name = name + ".out", .bytes = kPipelineWidth * 4, .shape = {1, kPipelineWidth}});
    program.nodes.push_back({.name = name,
                             .reads = {s},
                             .writes = {s + 1},
                             .units = {s},
                             .loss = loss,
                             .split = plan::BackwardSplit{},
                             .seconds = seconds});
    model.spec.units.push_back(
        {.name = name, .params = {{.name = name, .shape = {kPipelineWidth}}}});
    model.spec.node_params.push_back({{.unit = s, .param = 0}});
    model.blocks.push_back(std::make_unique<SleepingBlock>(seconds, loss));
  }
  return model;
}

class NoUpdate : public exec::Optimizer {
 public:
  const std::vector<exec::StateSpec>& states() const override { return none_; }
  void update(at::Tensor, const at::Tensor&, std::span<at::Tensor>,
              std::span<const exec::UpdateSegment>, const exec::UpdateArgs&) override {}

 private:
  std::vector<exec::StateSpec> none_;
};

double time_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Median seconds from sending a number to a waiting rank until that rank continues.
double measured_latency() {
  constexpr int kRepeats = 31;
  std::vector<double> seconds;
  comm::run_local_ranks(2, kPipelineTimeout, [&](comm::World& world) {
    const auto channel = world.make_group("latency", {0, 1});
    for (int repeat = 0; repeat < kRepeats; ++repeat) {
      world.exchange("");
      double sent = 0;
      if (world.rank() == 0) {
        sleep(4e-3);
        sent = time_now();
        channel->send({&sent, 1, DType::kF64}, 1).wait();
      } else {
        const comm::Ticket ticket = channel->recv({&sent, 1, DType::kF64}, 0);
        sleep(2e-3);  // as after an action: by now the lane has taken it over
        ticket.wait();
        seconds.push_back(time_now() - sent);
      }
    }
  });
  return median(seconds);
}

struct PipelineProblem {
  int ranks = 0;
  int micro_batches = 0;
  double seconds = 0;  // of each of F, I and W of a rank's share of a micro-batch
  int steps = 0;
  double latency_s = 0;  // of a transfer
};

struct PipelineFigures {
  double measured_s = 0;
  double simulated_s = 0;
  std::vector<int> kept;  // by rank: most forwards kept at once
  std::vector<int> kept_planned;
};

PipelineFigures measure(const PipelineProblem& problem, Schedule schedule) {
  const int chunks = schedules::chunks_of(schedule, 0);
  const double each = problem.seconds / chunks;
  const plan::Recipe recipe{
      .micro_batches = problem.micro_batches, .schedule = schedule, .optimizer_states = 0};
  PipelineFigures figures;
  figures.kept.resize(static_cast<std::size_t>(problem.ranks));
  std::vector<double> steps;
  comm::run_local_ranks(problem.ranks, kPipelineTimeout, [&](comm::World& world) {
    at::set_num_threads(1);
    const int stages = problem.ranks * chunks;
    exec::Model model = sleeping_model(stages, {.forward = each, .input = each, .weight = each});
    model.spec.program = plan::place(
        std::move(model.spec.program), plan::Cuts(static_cast<std::size_t>(stages), 1),
        {.placement = schedules::placement_of(schedule), .ranks = problem.ranks, .chunks = chunks});
    NoUpdate optimizer;
    exec::Session session(std::move(model),
                          {.mesh = mesh::Mesh({.pp = problem.ranks}), .recipe = recipe}, world,
                          optimizer);
    for (int step = -1; step < problem.steps; ++step) {
      world.exchange("");  // all begin together
      const Stopwatch watch;
      const exec::StepResult result =
          session.step({.step = step, .load = [](int) {
                          return std::vector{at::zeros({1, kPipelineWidth})};
                        }});
      if (world.rank() == 0 && step >= 0) steps.push_back(watch.seconds());
      figures.kept[world.rank()] = result.kept_forwards;
    }
    if (world.rank() > 0) return;
    simulate::CostModel instant;  // what does not sleep takes no time worth a figure
    instant.link_latency_s = problem.latency_s;
    instant.line_s = 0;
    instant.memory_bytes_per_s = instant.link_bytes_per_s = INFINITY;
    figures.simulated_s = simulate::simulate(session.plan(), instant).step_s;
    for (const plan::List& list : session.plan().lists)
      figures.kept_planned.push_back(plan::kept_forwards(list));
  });
  figures.measured_s = median(steps);
  return figures;
}

std::string joined(const std::vector<int>& numbers) {
  std::string text;
  for (int number : numbers) text += fmt::format("{}{}", text.empty() ? "" : " ", number);
  return text;
}

}  // namespace

int bench_pipeline(const Arguments& arguments) {
  const auto request = arguments.request<BenchPipelineOptions>();
  const PipelineProblem problem{.ranks = request.ranks,
                                .micro_batches = request.micro_batches,
                                .seconds = request.ms * 1e-3,
                                .steps = request.steps,
                                .latency_s = measured_latency()};
  fmt::print(
      "{} ranks (threads) that sleep {:.1f} ms for each F, I and W of a micro-batch, {} "
      "micro-batches; median of {} steps; a transfer takes {:.0f} us here and in the simulator\n",
      problem.ranks, problem.seconds * 1e3, problem.micro_batches, problem.steps,
      problem.latency_s * 1e6);
  fmt::print("{:<12} {:>12} {:>12} {:>8} {:>8}  {}\n", "schedule", "measured ms", "simulated",
             "ratio", "bubble", "most kept forwards by rank (planned)");
  Json rows = Json::array();
  for (const std::string& name : request.schedules) {
    const PipelineFigures figures = measure(problem, *schedules::schedule_of(name));
    const double work = 3 * problem.micro_batches * problem.seconds;
    const double ratio = figures.measured_s / figures.simulated_s;
    fmt::print("{:<12} {:>12.1f} {:>12.1f} {:>8.4f} {:>7.1f}%  {} ({})\n", name,
               figures.measured_s * 1e3, figures.simulated_s * 1e3, ratio,
               100 * (1 - work / figures.measured_s), joined(figures.kept),
               joined(figures.kept_planned));
    std::fflush(stdout);
    rows.push_back({{"schedule", name},
                    {"measured_ms", figures.measured_s * 1e3},
                    {"simulated_ms", figures.simulated_s * 1e3},
                    {"ratio", ratio},
                    {"kept", figures.kept},
                    {"kept_planned", figures.kept_planned}});
  }
  write_json(request.json, rows);
  return 0;
}

}  // namespace trireme::app
