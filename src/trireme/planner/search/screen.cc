#include "trireme/planner/search/screen.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "trireme/base/error.h"
#include "trireme/config/resolve/check_optimizer.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/model/layout.h"
#include "trireme/plan/binary_counter.h"
#include "trireme/plan/memory.h"
#include "trireme/plan/schedules/info.h"
#include "trireme/plan/unit_types.h"
#include "trireme/planner/hardware/machine.h"

namespace trireme::planner {

using mesh::Axis;
using schedules::InFlight;
using schedules::Place;

// Nodes of one pipeline rank.
struct Screen::Stage {
  double forward = 0, input = 0, weight = 0;
  double kept = 0, waiting = 0, once = 0, transient = 0;  // `once`: of one micro-batch only
  double numel = 0, trained = 0, unit = 0;                // `unit`: elements of the largest
  double units = 0;

  double length() const { return forward + input + weight; }  // of a micro-batch, in seconds
};

// What waits elsewhere of a rank's.
struct Screen::Offloaded {
  double host = 0;   // bytes
  double moved = 0;  // seconds for what leaves and comes back once a step
};

Screen::Screen(const Question& question)
    : question_(question),
      alone_(resolved_alone(question)),
      constants_(memory_constants(question)) {
  nodes_ = nodes_of(alone_);
  const plan::Unit unit{.name = "block.0", .numel = 1 << 20};
  for (std::size_t away = 0; away < offloads_.size(); ++away) {
    offloads_[away] = with_layout(question.job, {.away = static_cast<Away>(away)}).offload;
    config::Job job = alone_;
    job.offload = offloads_[away];
    masters_[away] = static_cast<double>(plan::master_bytes(model::recipe_of(job), unit));
  }
  const plan::Recipe recipe = model::recipe_of(alone_);
  param_ = static_cast<double>(size_of(plan::param_type(recipe, unit)));
  states_ = static_cast<double>(plan::state_bytes(recipe, unit, unit.numel)) / (1 << 20);
  if (config::matrix_optimizer(alone_.optim) != nullptr) count_matrices();
  grad_ = static_cast<double>(size_of(recipe.grads));
  reduce_ = static_cast<double>(size_of(plan::reduce_type(recipe)));
}

const Parts& Screen::parts(const Layout& layout) const {
  std::unique_ptr<Parts>& parts = parts_[{layout.tp, layout.cp, layout.sequence_parallel,
                                          layout.micro_batch, layout.recomputed}];
  if (!parts) parts = std::make_unique<Parts>(make_parts(layout));
  return *parts;
}

// A collective's seconds are a latency and a rate: both follow from two sizes.
Traffic Screen::make_traffic(const Layout& layout) const {
  const Network network(question_.cluster, mesh::Mesh({.pp = layout.pp,
                                                       .dp_replicate = layout.dp_replicate,
                                                       .dp_shard = layout.dp_shard,
                                                       .cp = layout.cp,
                                                       .tp = layout.tp}));
  constexpr double kBytes = 1e9;
  const auto line = [&](plan::Exchange kind, mesh::AxisSet axes, double& rate, double& latency) {
    latency = network.seconds(kind, axes, 0);
    rate = (network.seconds(kind, axes, kBytes) - latency) / kBytes;
  };
  Traffic traffic;
  line(plan::Exchange::kAllGather, mesh::kShards, traffic.gather, traffic.gather_s);
  line(plan::Exchange::kReduceScatter, mesh::kShards, traffic.scatter, traffic.scatter_s);
  line(plan::Exchange::kAllReduce, mesh::kReplicas, traffic.all_reduce, traffic.all_reduce_s);
  line(plan::Exchange::kAllReduce, Axis::kDpReplicate, traffic.replicas, traffic.replicas_s);
  traffic.channels = network.channels(mesh::kShards);
  traffic.replica_channels = network.channels(Axis::kDpReplicate);
  return traffic;
}

const Traffic& Screen::traffic(const Layout& layout) const {
  const std::array<int, 4> key = {layout.tp, layout.cp, layout.dp_shard, layout.dp_replicate};
  const auto found = traffic_.find(key);
  return found != traffic_.end() ? found->second
                                 : traffic_.emplace(key, make_traffic(layout)).first->second;
}

double Screen::transfer(const Layout& layout, double bytes) const {
  if (layout.pp == 1) return 0;
  const auto [at, absent] = transfers_.try_emplace(layout.pp);
  if (absent) {
    const Network network(question_.cluster, mesh::Mesh({.pp = layout.pp,
                                                         .dp_replicate = layout.dp_replicate,
                                                         .dp_shard = layout.dp_shard,
                                                         .cp = layout.cp,
                                                         .tp = layout.tp}));
    at->second = {network.transfer(0), (network.transfer(1e9) - network.transfer(0)) / 1e9};
  }
  return at->second[0] + bytes * at->second[1];
}

Screen::Stage Screen::stage(const Layout& layout, const Parts& parts, double blocks, bool embed,
                            bool head) const {
  Stage stage;
  const auto take = [&](const NodeCosts& costs, double count) {
    stage.forward += count * costs.forward;
    stage.input += count * costs.input;
    stage.weight += count * costs.weight;
    stage.numel += count * costs.numel;
    stage.trained += count * costs.trained;
    stage.units += count;
    stage.transient = std::max(stage.transient, costs.transient);
    stage.unit = std::max(stage.unit, costs.numel);
  };
  if (blocks > 0) take(parts.block, blocks);
  stage.kept = blocks * parts.block.kept;
  stage.waiting = blocks * std::max(parts.block.waiting, parts.block.kept);
  if (embed) {
    take(parts.embed, 1);
    stage.kept += parts.embed.kept;
    stage.waiting += parts.embed.kept;
  }
  if (head) {
    take(parts.head, 1);
    stage.once += parts.head.kept;
    if (embed) {  // the table is there once
      stage.numel -= parts.shared;
      stage.trained -= parts.embed.trained > 0 ? parts.shared : 0;
    }
  }
  if (layout.pp > 1) stage.once += 2 * parts.boundary;  // on its way to or from a neighbour
  return stage;
}

double Screen::seconds_out(Tier tier, double bytes) const {
  const Cluster& cluster = question_.cluster;
  const double rate = tier == Tier::kHost   ? cluster.host_rate
                      : tier == Tier::kNvme ? cluster.disk_rate / cluster.gpus_per_host
                                            : 0;
  return rate > 0 ? bytes / rate : 0;
}

double Screen::bytes_of(const Layout& layout, const Parts& parts, const Stage& stage,
                        double kept_mb, double waiting_mb, Offloaded& offloaded) const {
  const double shards = layout.dp_shard * layout.cp;
  const bool sharded = layout.zero >= 1 && shards > 1;
  const double part = sharded ? 1 / shards : 1;
  const double m = static_cast<double>(micro_batches(layout));
  const bool canonical = alone_.precision.numerics == config::Numerics::kCanonical;
  const auto group = static_cast<int>(config::sum_group(
      alone_.precision, micro_batches(layout) * layout.dp(), micro_batches(layout)));
  const double levels = canonical ? plan::most_sums(static_cast<int>(m), group) : 1;
  double params = stage.numel * param_ * (sharded && layout.zero == 3 ? part : 1);
  const double kept_states = masters_[static_cast<std::size_t>(layout.away)] + states_;
  double states = stage.trained * part * kept_states;
  const bool each = sharded && layout.zero >= 2;  // scattered after every micro-batch
  double grads = stage.trained * grad_ * (each ? part : 1) * levels;
  double buffers = 0;
  if (sharded && layout.zero == 3) buffers += stage.unit * param_ * (1 + plan::kAhead);
  if (each) buffers += 2 * stage.unit * grad_;
  if (reduce_ != grad_) buffers += stage.unit * reduce_;
  double inputs = kept_mb * stage.kept;
  const config::Offload& offload = offload_of(layout);
  offloaded = {};
  // Of a share, what a few units or values need is there.
  const auto leave = [&](Tier tier, double share, double& bytes, double staged) {
    if (tier == Tier::kNone) return;
    const double left = share * std::max(bytes - staged, 0.0);
    if (tier == Tier::kHost) offloaded.host += share * bytes;
    bytes -= left;
  };
  const std::array<double, 3> once = {states, params, grads};
  leave(offload.optimizer, offload.ratio, states, 2 * stage.unit * part * kept_states);
  leave(offload.params, 1, params, 2 * stage.unit * param_);
  leave(offload.grads, 1, grads, 2 * stage.unit * grad_);
  leave(offload.activations, 1, inputs, (1 + plan::kAhead) * parts.boundary);
  const double kept = inputs + waiting_mb * stage.waiting + stage.once;
  // One way while the other.
  offloaded.moved = seconds_out(offload.optimizer, offload.ratio * once[0]) +
                    seconds_out(offload.params, once[1]) + seconds_out(offload.grads, once[2]);
  // The last micro-batches' activations go while gradients come.
  double steady = kept + grads;
  if (m <= kept_mb + waiting_mb)
    steady = std::max(kept, kept + (grads - stage.kept) / layout.chunks);
  const double received = sharded && !each ? stage.trained * part * grad_ : 0;
  const double tensors =
      params + states + std::max(steady + stage.transient + buffers, grads + received + buffers);
  double groups = 1;  // norms
  groups += (layout.tp > 1) + (layout.cp > 1) + (layout.dp() * layout.cp > 1) +
            (layout.dp_replicate > 1 && layout.zero > 0);
  if (layout.pp > 1) groups += 2 + (parts.shared > 0);
  if (layout.world() == 1) groups = 0;
  return tensors + (question_.expandable ? 0 : constants_.holes * kept) + constants_.context +
         groups * constants_.communicator + (on_gpus(question_.cluster) ? 0 : offloaded.host);
}

double Screen::memory(const Layout& layout, const Parts& parts, const Cut& cut,
                      Offloaded& offloaded) const {
  const auto m = static_cast<double>(micro_batches(layout));
  const schedules::Pipe pipe{.ranks = static_cast<double>(layout.pp),
                             .micro_batches = m,
                             .chunks = static_cast<double>(layout.chunks),
                             .activation_limit = alone_.parallel.activation_limit};
  double most = 0;
  const auto take = [&](double blocks, bool embed, bool head, Place place) {
    const InFlight flight = in_flight(layout.schedule, pipe, place);
    Offloaded own;
    most = std::max(most, bytes_of(layout, parts, stage(layout, parts, blocks, embed, head),
                                   flight.kept, flight.waiting, own));
    offloaded.host = std::max(offloaded.host, own.host);
    offloaded.moved = std::max(offloaded.moved, own.moved);
  };
  take(cut.first, true, cut.together, layout.pp == 1 ? Place::kLast : Place::kFirst);
  if (!cut.together) take(cut.last, false, true, Place::kLast);
  if (layout.pp > 2) take(cut.most, false, false, Place::kMiddle);
  return most;
}

Costs Screen::price(const Layout& layout) const {
  return price(layout, parts(layout), traffic(layout));
}

// Terms of a step, in seconds, on the rank that computes longest.
struct Screen::StepTerms {
  double forward = 0, backward = 0;  // of a micro-batch, with what runs at the same time
  double bubble = 0;                 // waiting for other stages
  double critical = 0;               // the way of few micro-batches through all stages
  double transfers = 0;              // between stages, as far as they are waited for
  double first_gather = 0;           // of the first unit under ZeRO-3
  double end = 0;                    // exchanges after the last backward
  double update = 0;                 // of the optimizer
  double offload = 0;                // for what leaves memory and comes back once a step

  double turn() const { return forward + backward; }
  double step(double micro_batches) const {
    return std::max(micro_batches * turn() + bubble, critical) + transfers + first_gather + end +
           update + offload;
  }
};

// The head's or one with most blocks.
Screen::Stage Screen::longest(const Layout& layout, const Parts& parts, const Cut& cut) const {
  Stage slow = stage(layout, parts, cut.most, false, false);
  for (const bool head : {false, true}) {
    const Stage other = stage(layout, parts, head ? cut.last : cut.first, !head || cut.together,
                              head || cut.together);
    if (other.length() > slow.length()) slow = other;
  }
  return slow;
}

StageTime Screen::time_of(const Layout& layout, const Stage& stage, const Traffic& traffic) const {
  const Gpu& gpu = question_.cluster.gpu;
  const auto beside = [&](double computing, double sharding, double among) {
    const double busy = sharding * traffic.channels + among * traffic.replica_channels;
    return with_shards(gpu, question_.practice, computing, sharding + among, busy);
  };
  StageTime time{.forward = stage.forward, .input = stage.input, .weight = stage.weight};
  const double gradients = stage.trained * reduce_;
  if (layout.zero < 1) {
    time.reduces = gradients * traffic.all_reduce + stage.units * traffic.all_reduce_s;
    return time;
  }
  const double starts = stage.units * traffic.gather_s;
  time.gathers = time.regathers = stage.numel * param_ * traffic.gather + starts;
  time.renewed = stage.trained * param_ * traffic.gather + starts;
  time.first = time.gathers / std::max(stage.units, 1.0);
  const double shards = layout.dp_shard * layout.cp;
  const double scattered = gradients * traffic.scatter + stage.units * traffic.scatter_s,
               among = gradients * traffic.replicas / shards + stage.units * traffic.replicas_s;
  time.reduces = scattered + among;
  if (layout.zero < 2) return time;
  const double gathers = layout.zero == 3 ? time.gathers : 0;
  time.forward = beside(time.forward, gathers, 0);
  time.input = beside(stage.input + stage.weight, gathers + scattered, among) - stage.weight;
  return time;
}

// Forward and backward of a micro-batch, with the exchanges and the offloading that run during them.
void Screen::price_turn(const Layout& layout, const Stage& slow, const StageTime& time,
                        StepTerms& terms) const {
  const StageTurn turn = turn_of(time, layout.zero, question_.practice);
  const double shards = layout.dp_shard * layout.cp;
  const config::Offload& offload = offload_of(layout);
  const double out = seconds_out(offload.params, slow.numel * param_) +
                     seconds_out(offload.activations, slow.kept);
  const double sums = slow.trained * grad_ * 2 * (layout.zero >= 2 ? 1 / shards : 1);
  terms.forward = std::max(turn.forward, out);
  terms.backward = std::max(turn.backward, out + seconds_out(offload.grads, sums));
}

// What pipeline stages wait for: each other, and what they send.
void Screen::price_pipeline(const Layout& layout, const Parts& parts, const Stage& slow,
                            StepTerms& terms) const {
  const Stage all = stage(layout, parts, parts.layers, true, true);
  const auto m = static_cast<double>(micro_batches(layout));
  const double p = layout.pp, turn = terms.turn();
  const double mean = std::min(turn, all.length() / p * turn / std::max(slow.length(), 1e-12));
  const double weight = mean * slow.weight / turn;
  const schedules::ScheduleInfo& schedule = schedules::info(layout.schedule);
  terms.bubble =
      schedule.bubble({.ranks = p,
                       .micro_batches = m,
                       .chunks = static_cast<double>(layout.chunks),
                       .activation_limit = alone_.parallel.activation_limit},
                      {.all = mean, .weight = weight, .forward = mean * terms.forward / turn});
  terms.critical = schedule.halves ? p * (mean - weight) + weight : 0;
  const double between = transfer(layout, parts.boundary);
  terms.transfers = question_.practice.overlaps_transfers ? 2 * (p - 1) * between
                                                          : 2 * m * layout.chunks * between;
}

Screen::StepTerms Screen::terms(const Layout& layout, const Parts& parts, const Traffic& traffic,
                                const Cut& cut) const {
  const Practice& practice = question_.practice;
  const Stage slow = longest(layout, parts, cut);
  const StageTime time = time_of(layout, slow, traffic);
  StepTerms terms;
  price_turn(layout, slow, time, terms);
  price_pipeline(layout, parts, slow, terms);
  if (layout.zero == 3 && practice.overlaps_shards) terms.first_gather = time.first;
  terms.end = waits_at_end(time, layout.zero, practice);
  const double part = layout.zero >= 1 ? 1 / (static_cast<double>(layout.dp_shard * layout.cp)) : 1;
  const double trained = part * slow.trained;
  terms.update =
      update_seconds(question_.cluster.gpu,
                     {.elements = trained,
                      .states = trained * states_,
                      .averaged = part * parts.averaged / layout.pp,
                      .flops = trained * matrix_flops_},
                     static_cast<double>(size_of(alone_.precision.master.value())), grad_);
  return terms;
}

Costs Screen::price(const Layout& layout, const Parts& parts, const Traffic& traffic) const {
  const Cut& cut = cut_of(parts, layout);
  Offloaded away;
  Costs price;
  price.bytes = memory(layout, parts, cut, away);
  price.host = away.host;
  price.offload = away.moved;
  StepTerms step = terms(layout, parts, traffic, cut);
  step.offload = away.moved;
  price.seconds = on_cores(question_.cluster, layout.world(),
                           step.step(static_cast<double>(micro_batches(layout))));
  return price;
}

}  // namespace trireme::planner
