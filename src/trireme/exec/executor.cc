#include "trireme/exec/executor.h"

#include <ATen/ops/full.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "trireme/base/clock.h"
#include "trireme/base/error.h"
#include "trireme/exec/units/grad_norm.h"
#include "trireme/model/account/flops.h"
#include "trireme/plan/coded_reduction.h"
#include "trireme/plan/compile/microbatch.h"
#include "trireme/plan/compile/placement.h"
#include "trireme/plan/outer_steps.h"
#include "trireme/plan/text/text.h"

namespace trireme::exec {

using plan::Instr;
using plan::Verb;
using torch::autograd::Edge;

namespace {

std::vector<plan::ValueId> input_values(const plan::Program& program) {
  std::vector<plan::ValueId> inputs;
  const std::vector<plan::NodeId> writer = plan::writers(program);
  for (std::size_t value = 0; value < writer.size(); ++value)
    if (writer[value] < 0) inputs.push_back(static_cast<plan::ValueId>(value));
  return inputs;
}

std::vector<std::string> line_texts(const plan::Program& program, const plan::List& list) {
  std::vector<std::string> texts;
  for (const Instr& line : list) texts.push_back(plan::line_text(program, line));
  return texts;
}

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

Executor::Executor(const plan::PlanSet& plan, int rank, Model& model, Units& units,
                   const Groups& groups, const AwaySpace& space, std::uint64_t seed,
                   watch::Recorder& flight)
    : plan_(plan),
      list_(plan.list(rank)),
      rank_(rank),
      model_(model),
      units_(units),
      groups_(groups),
      seed_(seed),
      flight_(flight),
      described_(flight.describe(line_texts(plan.program, list_))),
      flow_(plan::gradient_flow(plan.program)),
      retirements_(plan::retirements(plan.program, list_)),
      inputs_(input_values(plan.program)),
      here_(plan::inputs_of_stage(plan.program, plan.mesh.coordinate(rank, mesh::Axis::kPp))),
      transfers_(plan, rank, groups, units.device()),
      value_moves_(plan, groups, space),
      losses_(static_cast<std::size_t>(plan.recipe.micro_batches)),
      flop_factors_(model::flop_factors(model.spec)) {}

StepResult Executor::run(const StepArgs& args) {
  StepResult result;
  grad_factor_ = 1;
  std::fill(losses_.begin(), losses_.end(), at::Tensor());
  counts_.assign(losses_.size(), Counts(model_.spec.metrics.size()));
  if (args.times != nullptr) args.times->assign(list_.size(), {});
  const Transfers::Arrived arrived = [&](int line, at::Tensor tensor) {
    this->arrived(line, std::move(tensor), args);
  };
  const double waited_before_s = flight_.waited_s();
  if (plan_.recipe.outer) units_.return_outer_means(args.step);
  for (int index = 0; index < static_cast<int>(list_.size()); ++index) {
    const Instr& line = list_[index];
    flight_.begin_line(plan::name(line.verb), described_, index, line.mb);
    wait_for(index, args);
    const Stopwatch running;
    const double waited_s = flight_.waited_s();
    LineTime* const time = args.times == nullptr ? nullptr : &(*args.times)[index];
    if (time != nullptr) time->start = now();
    run_line(index, args, result);
    const double within_s = flight_.waited_s() - waited_s;
    if (time != nullptr) *time = {.start = time->start, .end = now(), .waited = within_s};
    flight_.end_line();
    if (const std::size_t kind = busy_kind(line.verb); kind < kBusyKinds)
      busy_[kind] += running.seconds() - within_s;
    transfers_.release(arrived);
    result.kept_forwards = std::max(result.kept_forwards,
                                    static_cast<int>(values_.saved.size() + values_.halves.size()));
  }
  for (plan::Lane lane : {plan::Lane::kDp, plan::Lane::kH2d, plan::Lane::kD2h})
    settle(lane, static_cast<int>(list_.size()), args);
  transfers_.settle_all(arrived);
  result.offload_wait_s = std::exchange(offload_wait_s_, 0);
  result.comm_wait_s = flight_.waited_s() - waited_before_s;
  return result;
}

std::optional<double> Executor::island_weight(plan::UnitId unit, const StepArgs& args) const {
  if (args.island_weights.empty()) return std::nullopt;
  const int fragments = plan_.recipe.outer.value().fragments;
  return args.island_weights[plan::fragments_of_units(plan_.program, fragments)[unit]];
}

// Whether the outer step at `index` applies what its unit has sent in this step.
bool Executor::merges_at_once(int index) const {
  return std::any_of(list_.begin(), list_.begin() + index, [&](const Instr& line) {
    return line.verb == Verb::kOuterReduce && line.unit == list_[index].unit;
  });
}

void Executor::run_line(int index, const StepArgs& args, StepResult& result) {
  const Instr& line = list_[index];
  // An exchange of islands may outlive the step: its outer step waits for it.
  if (line.lane == plan::Lane::kDp && line.verb != Verb::kGradNorm &&
      line.verb != Verb::kOuterReduce)
    in_flight(line.lane).push_back({.line = index, .movement = {}});
  switch (line.verb) {
    case Verb::kLoad: load(line, args); break;
    case Verb::kUnshard: units_.unshard_begin(line.unit, line.axes, line.within); break;
    case Verb::kReshard: units_.reshard(line.unit); break;
    case Verb::kForward: forward(line, args, line.keep); break;
    case Verb::kRecompute: forward(line, args, true); break;
    case Verb::kBackward:
    case Verb::kBackwardInput: backward(line, args); break;
    case Verb::kBackwardWeight: backward_weight(line); break;
    case Verb::kSend:
      transfers_.send(index, line.gradient ? values_.gradients.take(line.value, line.mb)
                                           : values_.activations.get(line.value, line.mb));
      break;
    case Verb::kRecv: transfers_.recv(index); break;
    case Verb::kReduceGrads:
    case Verb::kSyncTied:
      units_.reduce_begin(line.unit, line,
                          {.gradient_scale = args.gradient_scale,
                           .seed = args.update.noise,
                           .update = args.update.step});
      break;
    case Verb::kReload: reload(index); break;
    case Verb::kOffload: offload(index); break;
    case Verb::kGradNorm:
      grad_factor_ = clip_scale(grad_norm(args, result), args.clip) / args.gradient_scale;
      break;
    case Verb::kExchangeUpdate:
    case Verb::kUpdateMatrices:
    case Verb::kStep: update(line, args, result.skipped); break;
    case Verb::kEma:
      if (!result.skipped && args.apply) units_.average(line.unit, args.momentum);
      break;
    case Verb::kOuterReduce:
      units_.outer_reduce_begin(line.unit, {.seed = args.update.noise,
                                            .update = args.update.step,
                                            .step = args.step,
                                            .island = island_weight(line.unit, args)});
      break;
    case Verb::kOuterStep: units_.outer_step(line.unit, merges_at_once(index)); break;
  }
  retire(index, args);
}

void Executor::update(const Instr& line, const StepArgs& args, bool skipped) {
  UpdateArgs update = args.update;
  update.grad_scale = grad_factor_;
  const bool applies = !skipped && args.apply;
  if (line.verb == Verb::kStep) {
    applies ? units_.update(line.unit, update) : units_.skip_update(line.unit);
  } else if (applies && line.verb == Verb::kExchangeUpdate) {
    units_.exchange_update_begin(line.unit, line.scatter, update);
  } else if (applies) {
    units_.update_matrices(line.unit, update);
  }
}

void Executor::wait_for(int index, const StepArgs& args) {
  const Instr& line = list_[index];
  for (int earlier : line.after) {
    const Instr& made = list_[earlier];
    if (made.lane != plan::Lane::kComp && !plan::is_transfer(made))
      settle(made.lane, earlier, args);
    if (plan::is_transfer(made))
      transfers_.settle(
          earlier, [&](int which, at::Tensor tensor) { arrived(which, std::move(tensor), args); });
  }
  if (line.verb == Verb::kGradNorm) settle(line.lane, index, args);  // its lane's earlier lines
}

// Waits for everything that the lane has issued up to `line`: a lane is in order, so `after` names the last line only.
void Executor::settle(plan::Lane lane, int line, const StepArgs& args) {
  std::deque<InFlight>& issued = in_flight(lane);
  const Stopwatch waiting;
  for (; !issued.empty() && issued.front().line <= line; issued.pop_front()) {
    finish(issued.front());
    if (args.times == nullptr) continue;
    LineTime& time = (*args.times)[issued.front().line];
    time.end = lane == plan::Lane::kDp ? now() : issued.front().movement.ended_s(time.end);
  }
  if (lane != plan::Lane::kDp) offload_wait_s_ += waiting.seconds();
}

void Executor::finish(InFlight& issued) {
  const Instr& line = list_[issued.line];
  switch (line.verb) {
    case Verb::kUnshard: units_.finish_unshard(line.unit); break;
    case Verb::kReload:
      if (line.value >= 0)
        values_.activations.put(line.value, line.mb,
                                value_moves_.finish_reload(line, issued.movement));
      else
        units_.finish_reload(line, issued.movement);
      break;
    case Verb::kOffload: issued.movement.wait(); break;
    case Verb::kExchangeUpdate: units_.finish_exchange_update(line.unit); break;
    default: units_.finish_reduce(line.unit);
  }
}

void Executor::reload(int index) {
  const Instr& line = list_[index];
  Movement movement = line.value >= 0 ? value_moves_.reload(line) : units_.reload_begin(line);
  if (line.lane == plan::Lane::kDp) return;  // a collective, which is in its lane already
  in_flight(line.lane).push_back({.line = index, .movement = std::move(movement)});
}

void Executor::offload(int index) {
  const Instr& line = list_[index];
  Movement movement =
      line.value >= 0 ? value_moves_.offload(line, values_.activations.take(line.value, line.mb))
                      : units_.offload_begin(line);
  if (line.lane != plan::Lane::kComp)
    in_flight(line.lane).push_back({.line = index, .movement = std::move(movement)});
}

void Executor::arrived(int index, at::Tensor tensor, const StepArgs& args) {
  const Instr& line = list_[index];
  if (args.times != nullptr) (*args.times)[index].end = now();
  if (line.verb == Verb::kSend) return;
  if (line.gradient)
    add_gradient(line.value, line.mb, std::move(tensor));
  else
    values_.activations.put(line.value, line.mb, std::move(tensor));
}

void Executor::retire(int index, const StepArgs& args) {
  const Instr& line = list_[index];
  const plan::Retirement& retirement = retirements_[index];
  for (const auto& [value, mb] : retirement.values) values_.activations.drop(value, mb);
  for (plan::UnitId unit : retirement.gradients) {
    const int chunk = plan_.program.nodes[line.node].chunk;
    if (args.observer != nullptr)
      args.observer->on_micro_batch_gradient(
          units_, unit, plan::micro_batch_id(plan_.mesh, plan_.recipe, rank_, line.mb),
          units_.micro_batch_gradient(unit, chunk));
    units_.close_gradient(unit, chunk, plan::sender_micro_batches(plan_, unit));
  }
}

void Executor::load(const Instr& line, const StepArgs& args) {
  std::vector<at::Tensor> batch = args.load(line.mb);
  TRIREME_CHECK(batch.size() == inputs_.size(), "a batch has {} inputs, the program reads {}",
                batch.size(), inputs_.size());
  for (std::size_t i = 0; i < batch.size(); ++i)
    if (plan::contains(here_, inputs_[i]))
      values_.activations.put(inputs_[i], line.mb, std::move(batch[i]));
}

void Executor::backward(const Instr& line, const StepArgs& args) {
  const plan::Node& node = plan_.program.nodes[line.node];
  Saved saved = values_.saved.take(line.node, line.mb);
  torch::autograd::edge_list roots;
  torch::autograd::variable_list seeds;
  for (std::size_t i = 0; i < node.writes.size(); ++i) {
    if (node.loss) {
      seeds.push_back(
          at::full({}, args.loss_scale / args.island_share * args.gradient_scale, saved.loss));
    } else if (at::Tensor* gradient = values_.gradients.seek(node.writes[i], line.mb)) {
      seeds.push_back(std::move(*gradient));
      values_.gradients.drop(node.writes[i], line.mb);
    } else {
      continue;  // no reader of this output lies before a loss
    }
    roots.push_back(saved.outputs[i]);
  }
  if (line.verb == Verb::kBackward)
    open_gradients(line, *saved.weights);
  else
    saved.weights->defer();
  saved.outputs.clear();
  if (!roots.empty())
    torch::autograd::Engine::get_default_engine().execute(roots, seeds, /*keep_graph=*/false,
                                                          /*create_graph=*/false,
                                                          /*accumulate_grad=*/true);
  if (line.verb == Verb::kBackward) saved.weights->settle();
  const auto batches = plan::batches(node, line.mb, plan_.recipe.micro_batches);
  for (std::size_t i = 0; i < node.reads.size(); ++i)
    for (const int mb : batches) {
      at::Tensor gradient = saved.inputs[i][mb - batches.front()].grad();
      if (gradient.defined()) add_gradient(node.reads[i], mb, std::move(gradient));
    }
  if (line.verb == Verb::kBackwardInput)
    values_.halves.put(line.node, line.mb, std::move(saved.weights));
}

void Executor::backward_weight(const Instr& line) {
  const ops::WeightGradientsPtr gradients = values_.halves.take(line.node, line.mb);
  open_gradients(line, *gradients);
  gradients->run();
  gradients->settle();
}

void Executor::open_gradients(const Instr& line, ops::WeightGradients& gradients) {
  const plan::Node& node = plan_.program.nodes[line.node];
  const std::vector<plan::UnitId>& opens = retirement_of(line).opens;
  for (plan::UnitId unit : node.units)
    if (units_.trains(unit))
      units_.open_gradient(unit, node.chunk, plan::contains(opens, unit), gradients);
}

void Executor::add_gradient(plan::ValueId value, int mb, at::Tensor gradient) {
  if (at::Tensor* sum = values_.gradients.seek(value, mb))
    *sum = *sum + gradient;
  else
    values_.gradients.put(value, mb, std::move(gradient));
}

double Executor::grad_norm(const StepArgs& args, StepResult& result) {
  std::vector<MicroBatchSums> own;
  for (std::size_t mb = 0; mb < losses_.size(); ++mb)
    own.push_back({.loss = losses_[mb].defined() ? losses_[mb].item<double>() : 0,
                   .counts = counts_[mb].all()});
  GlobalSums sums = exchange_sums(
      plan_, rank_, units_, groups_, own,
      {.flag = args.flag, .flops = std::exchange(flops_, 0), .busy = std::exchange(busy_, {})});
  result.busy = std::move(sums.busy);
  if (args.observer != nullptr) args.observer->on_gradients(units_);
  result.flag = sums.flag;
  result.flops = sums.flops;
  result.loss = sums.batch.loss * args.loss_scale;
  result.counts = std::move(sums.batch.counts);
  const double of_island = std::sqrt(sums.square_sum) / args.gradient_scale;
  result.grad_norm = std::sqrt(sums.largest_square_sum) / args.gradient_scale;
  if (std::isfinite(result.loss) && std::isfinite(result.grad_norm)) return of_island;
  result.skipped = args.skip_overflow;
  if (!result.skipped)
    fail(ErrorKind::kNonFinite,
         "step {}: loss {}, gradient norm {}: no parameter was changed; lower optim.lr, or check "
         "the "
         "data of this step",
         args.step, result.loss, result.grad_norm);
  return of_island;
}

}  // namespace trireme::exec
