#include "trireme/planner/search/sieve.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "trireme/base/error.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/model/layout.h"
#include "trireme/plan/memory.h"
#include "trireme/plan/schedules/info.h"
#include "trireme/plan/unit_types.h"
#include "trireme/planner/cost/kernels.h"
#include "trireme/planner/hardware/machine.h"

namespace trireme::planner {

using mesh::Axis;
using schedules::InFlight;
using schedules::Place;

// What one pipeline rank has.
struct Sieve::Stage {
  double forward = 0, input = 0, weight = 0;
  double kept = 0, waiting = 0, once = 0, transient = 0;  // `once`: of one micro-batch only
  double numel = 0, trained = 0, unit = 0;                // `unit`: elements of the largest
  double units = 0;
};

// What waits elsewhere of a rank's.
struct Sieve::Beside {
  double host = 0;   // bytes
  double moved = 0;  // seconds for what leaves and comes back once a step
};

Sieve::Sieve(const Question& question)
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
  grad_ = static_cast<double>(size_of(recipe.grads));
  reduce_ = static_cast<double>(size_of(plan::reduce_type(recipe)));
}

const Parts& Sieve::parts(const Layout& layout) const {
  std::unique_ptr<Parts>& parts =
      parts_[{layout.tp, layout.cp, layout.sequence_parallel, layout.micro_batch, layout.again}];
  if (!parts)
    parts = std::make_unique<Parts>(
        config::is_decoder(alone_.model.family) ? make_parts(layout) : make_program_parts(layout));
  return *parts;
}

// A collective's seconds are a latency and a rate: both follow from two sizes.
Traffic Sieve::make_traffic(const Layout& layout) const {
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

const Traffic& Sieve::traffic(const Layout& layout) const {
  const std::array<int, 4> key = {layout.tp, layout.cp, layout.dp_shard, layout.dp_replicate};
  const auto found = traffic_.find(key);
  return found != traffic_.end() ? found->second
                                 : traffic_.emplace(key, make_traffic(layout)).first->second;
}

double Sieve::transfer(const Layout& layout, double bytes) const {
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

Sieve::Stage Sieve::stage(const Layout& layout, const Parts& parts, double blocks, bool embed,
                          bool head) const {
  Stage stage;
  const auto take = [&](const Piece& piece, double count) {
    stage.forward += count * piece.forward;
    stage.input += count * piece.input;
    stage.weight += count * piece.weight;
    stage.numel += count * piece.numel;
    stage.trained += count * piece.trained;
    stage.units += count;
    stage.transient = std::max(stage.transient, piece.transient);
    stage.unit = std::max(stage.unit, piece.numel);
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

double Sieve::seconds_out(trireme::Tier tier, double bytes) const {
  const Cluster& cluster = question_.cluster;
  const double rate = tier == trireme::Tier::kHost   ? cluster.host_rate
                      : tier == trireme::Tier::kNvme ? cluster.disk_rate / cluster.gpus_per_host
                                                     : 0;
  return rate > 0 ? bytes / rate : 0;
}

double Sieve::bytes_of(const Layout& layout, const Parts& parts, const Stage& stage, double kept_mb,
                       double waiting_mb, Beside& beside) const {
  const double shards = layout.dp_shard * layout.cp;
  const bool sharded = layout.zero >= 1 && shards > 1;
  const double part = sharded ? 1 / shards : 1;
  const double m = static_cast<double>(micro_batches(layout));
  const bool canonical = alone_.precision.numerics == config::Numerics::kCanonical;
  const double levels = canonical ? std::floor(std::log2(m + 1)) : 1;
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
  beside = {};
  // Of a share, what a few units or values need is there.
  const auto leave = [&](trireme::Tier tier, double share, double& bytes, double staged) {
    if (tier == trireme::Tier::kNone) return;
    const double left = share * std::max(bytes - staged, 0.0);
    if (tier == trireme::Tier::kHost) beside.host += share * bytes;
    bytes -= left;
  };
  const std::array<double, 3> once = {states, params, grads};
  leave(offload.optimizer, offload.ratio, states, 2 * stage.unit * part * kept_states);
  leave(offload.params, 1, params, 2 * stage.unit * param_);
  leave(offload.grads, 1, grads, 2 * stage.unit * grad_);
  leave(offload.activations, 1, inputs, (1 + plan::kAhead) * parts.boundary);
  const double kept = inputs + waiting_mb * stage.waiting + stage.once;
  // One way while the other.
  beside.moved = seconds_out(offload.optimizer, offload.ratio * once[0]) +
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
         groups * constants_.communicator + (on_gpus(question_.cluster) ? 0 : beside.host);
}

double Sieve::memory(const Layout& layout, const Parts& parts, const Cut& cut,
                     Beside& beside) const {
  const auto m = static_cast<double>(micro_batches(layout));
  const schedules::Pipe pipe{.ranks = static_cast<double>(layout.pp),
                             .micro_batches = m,
                             .chunks = static_cast<double>(layout.chunks),
                             .activation_limit = alone_.parallel.activation_limit};
  double most = 0;
  const auto take = [&](double blocks, bool embed, bool head, Place place) {
    const InFlight flight = in_flight(layout.schedule, pipe, place);
    Beside own;
    most = std::max(most, bytes_of(layout, parts, stage(layout, parts, blocks, embed, head),
                                   flight.kept, flight.waiting, own));
    beside.host = std::max(beside.host, own.host);
    beside.moved = std::max(beside.moved, own.moved);
  };
  take(cut.first, true, cut.together, layout.pp == 1 ? Place::kLast : Place::kFirst);
  if (!cut.together) take(cut.last, false, true, Place::kLast);
  if (layout.pp > 2) take(cut.most, false, false, Place::kMiddle);
  return most;
}

Costs Sieve::price(const Layout& layout) const {
  return price(layout, parts(layout), traffic(layout));
}

Costs Sieve::price(const Layout& layout, const Parts& parts, const Traffic& traffic) const {
  const Practice& practice = question_.practice;
  const Cut& cut = cut_of(parts, layout);
  Costs price;
  Beside away;
  price.bytes = memory(layout, parts, cut, away);
  price.host = away.host;
  const auto m = static_cast<double>(micro_batches(layout));
  const double p = layout.pp;
  // The rank that computes longest: the head's or one with most blocks.
  Stage slow = stage(layout, parts, cut.most, false, false);
  const auto length = [](const Stage& stage) { return stage.forward + stage.input + stage.weight; };
  for (const bool head : {false, true}) {
    const Stage other = stage(layout, parts, head ? cut.last : cut.first, !head || cut.together,
                              head || cut.together);
    if (length(other) > length(slow)) slow = other;
  }
  const Stage all = stage(layout, parts, parts.layers, true, true);
  const double compute = slow.input + slow.weight;
  const double shards = layout.dp_shard * layout.cp;
  const bool sharded = layout.zero >= 1;
  double gathers = 0, reduces = 0, replicas = 0;
  if (sharded) {
    gathers = (layout.zero == 3 ? slow.numel : slow.trained) * param_ * traffic.gather +
              slow.units * traffic.gather_s;
    replicas = slow.trained * reduce_ * traffic.replicas / shards + slow.units * traffic.replicas_s;
    reduces = slow.trained * reduce_ * traffic.scatter + slow.units * traffic.scatter_s + replicas;
  } else {
    reduces = slow.trained * reduce_ * traffic.all_reduce + slow.units * traffic.all_reduce_s;
  }
  const double lost = 1 - question_.cluster.gpu.efficiency.shared;
  const auto beside = [&](double computing, double sharding, double among) {
    const double other = sharding + among;
    if (!practice.overlaps_shards || other <= 0) return computing + other;
    const double covered = std::min(other / std::max(computing, 1e-12), 1.0);
    const double taken =
        lost * (sharding * traffic.channels + among * traffic.replica_channels) / other;
    return std::max(computing * (1 + covered * (1 / (1 - taken) - 1)), other);
  };
  double forward = slow.forward, backward = compute;
  if (layout.zero >= 2) {
    const double out = layout.zero == 3 ? gathers : 0;
    forward = beside(forward, out, 0);
    backward = beside(backward, out + reduces - replicas, replicas);
  }
  const config::Offload& offload = offload_of(layout);
  const double out = seconds_out(offload.params, slow.numel * param_) +
                     seconds_out(offload.activations, slow.kept);
  const double sums = slow.trained * grad_ * 2 * (layout.zero >= 2 ? 1 / shards : 1);
  forward = std::max(forward, out);
  backward = std::max(backward, out + seconds_out(offload.grads, sums));
  const double between = transfer(layout, parts.boundary);
  const double turn = forward + backward;
  const double mean = std::min(turn, length(all) / p * turn / std::max(length(slow), 1e-12));
  const double weight = mean * slow.weight / turn;
  const schedules::ScheduleInfo& schedule = schedules::info(layout.schedule);
  const double bubble =
      schedule.bubble({.ranks = p,
                       .micro_batches = m,
                       .chunks = static_cast<double>(layout.chunks),
                       .activation_limit = alone_.parallel.activation_limit},
                      {.all = mean, .weight = weight, .forward = mean * forward / turn});
  const double critical =
      schedule.halves ? p * (mean - weight) + weight : 0;  // of few micro-batches
  double step = std::max(m * turn + bubble, critical);
  step += practice.overlaps_transfers ? 2 * (p - 1) * between : 2 * m * layout.chunks * between;
  if (layout.zero == 3) step += gathers / std::max(slow.units, 1.0);
  if (layout.zero <= 1)
    step += practice.overlaps_reduction ? std::max(reduces - compute, 0.0) : reduces;
  if (layout.zero == 1 || layout.zero == 2)
    step += practice.overlaps_gathers ? std::max(gathers - slow.forward, 0.0) : gathers;
  const double part = sharded ? 1 / shards : 1;
  const auto master = static_cast<double>(size_of(alone_.precision.master.value()));
  const double stepped = part * (slow.trained * (3 * master + 2 * grad_ + 2 * states_) +
                                 parts.averaged / p * 3 * master);
  const Gpu& gpu = question_.cluster.gpu;
  step += gpu.core ? stepped / gpu.core->update_rate : seconds(gpu, stream(stepped));
  price.offload = away.moved;
  step += price.offload;
  price.seconds = on_cores(question_.cluster, layout.world(), step);
  return price;
}

}  // namespace trireme::planner
