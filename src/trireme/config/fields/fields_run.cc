// How training goes: the optimizer, the run, its checkpoints.
#include <fmt/ranges.h>

#include "trireme/base/error.h"
#include "trireme/config/fields/field_joined.h"
#include "trireme/config/fields/field_lists.h"
#include "trireme/config/optimizers.h"

namespace trireme::config {
namespace {

// A number, or 0 until the largest that fits is found.
Field micro_batch_field() {
  Field field = integer(KEY(run.micro_batch),
                        "Samples per forward and backward pass of one rank. 0: the largest that "
                        "fits run.memory_limit or else the machine, found before training. Results "
                        "depend on it in the last bits.",
                        from(0, kMaxBatch));
  field.get = [](const Job& job) -> Value {
    return job.run.find_micro_batch ? std::int64_t{0} : job.run.micro_batch;
  };
  field.set = [](Job& job, const Value& value) {
    const auto samples = std::get<std::int64_t>(value);
    job.run.find_micro_batch = samples == 0;
    job.run.micro_batch = samples == 0 ? 1 : samples;
  };
  return field;
}

// A schedule, where wsd may say in which share of the steps it decays.
Field lr_schedule_field() {
  std::vector<std::pair<std::string_view, LrSchedule>> choices;
  for (const LrScheduleInfo& one : kLrSchedules) choices.emplace_back(one.key, one.schedule);
  return with_suffix(
      choice(
          KEY(optim.schedule),
          "Learning-rate schedule after the warm-up. Wsd is constant, then falls linearly in the "
          "last SHARE of optim.decay_steps (0.1 if left out). Inverse_sqrt falls as the root of "
          "the step grows, from the end of the warm-up on, to optim.min_lr.",
          std::move(choices)),
      {"wsd"}, "SHARE", MEMBER(optim.wsd_decay_fraction), from(0, 1));
}

Optimizer optimizer_of(const std::string& name) {
  std::vector<std::string_view> keys;
  for (const OptimizerInfo& one : kOptimizers) {
    if (name == one.key) return one.optimizer;
    keys.emplace_back(one.key);
  }
  fail(ErrorKind::kUsage, "optim.groups: name={} is no optimizer; set one of {}", name,
       fmt::join(keys, ", "));
}

Field groups_field() {
  Field field = form(
      Field::Kind::kMaps, "optim.groups",
      "Parameter groups (docs/optimizers.md): patterns of parameters or units, a factor of the "
      "learning rate (default 1), a weight decay, and an optimizer. The last match wins.");
  field.entries = {form(Field::Kind::kText, "match", ""),
                   form(Field::Kind::kNumber, "lr_mult", "", from(0, 1000)),
                   form(Field::Kind::kNumber, "weight_decay", "", from(0, 100)),
                   form(Field::Kind::kText, "name", "")};
  field.get = [](const Job& job) -> Value {
    Maps maps;
    for (const ParamGroup& group : job.optim.groups) {
      Maps::value_type& map = maps.emplace_back();
      map.emplace_back("match", group.match);
      if (group.lr_mult != 1) map.emplace_back("lr_mult", group.lr_mult);
      if (group.weight_decay) map.emplace_back("weight_decay", *group.weight_decay);
      if (group.name) map.emplace_back("name", std::string(info(*group.name).key));
    }
    return maps;
  };
  field.set = [](Job& job, const Value& value) {
    job.optim.groups.clear();
    for (const Maps::value_type& map : std::get<Maps>(value)) {
      ParamGroup& group = job.optim.groups.emplace_back();
      for (const auto& [key, entry] : map) {
        if (key == "match") group.match = std::get<std::string>(entry);
        if (key == "lr_mult") group.lr_mult = std::get<double>(entry);
        if (key == "weight_decay") group.weight_decay = std::get<double>(entry);
        if (key == "name") group.name = optimizer_of(std::get<std::string>(entry));
      }
    }
  };
  return field;
}

Field optimizer_field() {
  std::vector<std::pair<std::string_view, Optimizer>> choices;
  for (const OptimizerInfo& one : kOptimizers) choices.emplace_back(one.key, one.optimizer);
  return fixed(
      choice(KEY(optim.name),
             "Optimizer: adamw, lion or muon (docs/optimizers.md). Lion usually takes a tenth of "
             "adamw's learning rate, ten times its weight decay and betas of [0.9, 0.99]. Muon "
             "updates weights of linear layers in blocks as whole matrices and leaves other "
             "parameters to adamw. Weight decay applies to weights with two or more dimensions.",
             std::move(choices)));
}

}  // namespace

std::vector<Field> optim_fields() {
  return {
      optimizer_field(),
      number(KEY(optim.lr), "Peak learning rate.", above(0, 100)),
      number(KEY(optim.min_lr), "Final learning rate of all schedules but constant.", from(0, 100)),
      count(KEY(optim.warmup_steps), "Steps of linear warm-up from optim.warmup_lr to optim.lr."),
      number(KEY(optim.warmup_lr), "Initial learning rate of the warm-up, at most optim.lr.",
             from(0, 100)),
      count(
          KEY(optim.decay_steps),
          "Step at which the learning rate reaches optim.min_lr, with the warm-up. 0: run.steps."),
      lr_schedule_field(),
      moving("optim.weight_decay", MEMBER(optim.weight_decay), MEMBER(optim.weight_decay_end),
             "Decoupled weight decay, scaled by the learning rate. With two numbers it "
             "moves along half a cosine, without warm-up.",
             from(0, 100)),
      groups_field(),
      two_numbers(KEY(optim.betas),
                  "Decay rates of AdamW's moments. Of Lion: the weight of its moment in a step, "
                  "and the moment's decay rate.",
                  half_open(0, 1)),
      number(KEY(optim.eps), "Epsilon of AdamW; Lion has none.", above(0, 1)),
      number("optim.momentum", MEMBER(optim.muon.momentum),
             "Decay rate of Muon's moment, which is Nesterov's.", half_open(0, 1)),
      fixed(choice("optim.newton_schulz", MEMBER(optim.muon.newton_schulz),
                   "Coefficients of Muon's five Newton-Schulz iterations: simple ends with "
                   "singular values of 0.68 to 1.13; quintic and polar are nearer to 1.",
                   {{"simple", NewtonSchulz::kSimple},
                    {"quintic", NewtonSchulz::kQuintic},
                    {"polar", NewtonSchulz::kPolar}})),
      fixed(choice(
          "optim.update_scale", MEMBER(optim.muon.update_scale),
          "Length of Muon's update of an A x B matrix. Match_rms is 0.2 sqrt(max(A, B)), for "
          "adamw's learning rate and weight decay. Original is sqrt(max(1, A / B)), which "
          "usually takes a learning rate of 0.02.",
          {{"match_rms", UpdateScale::kMatchRms}, {"original", UpdateScale::kOriginal}})),
      number(KEY(optim.clip), "Maximum global gradient norm. 0: no clipping.", from(0, 1e9)),
      fixed(choice(KEY(optim.states),
                   "Format of the moments: auto (precision.master) or int8 (8-bit codes with a "
                   "scale per 256 values; needs parallel.tp=1).",
                   {{"auto", OptimizerStates::kMaster}, {"int8", OptimizerStates::kInt8}})),
      boolean(KEY(optim.from_weights),
              "Optimizer moments, update count and loss scale from model.weights, a checkpoint of "
              "the same model. The run has no warm-up, and its schedules start at its first step. "
              "On the same data it continues after that run's last sample."),
  };
}

std::vector<Field> run_fields() {
  return {
      choice(KEY(run.device), "Compute device. cuda: one process per GPU.",
             {{"cpu", Device::kCpu}, {"cuda", Device::kCuda}}),
      integer(KEY(run.steps), "Optimizer steps of the whole run.", from(1, kMaxSteps)),
      fixed(integer(KEY(run.global_batch), "Samples per step over all ranks.", from(1, kMaxBatch))),
      fixed(micro_batch_field()),
      bytes(KEY(run.memory_limit),
            "Maximum forecast memory per rank, with its share of the process; a job above it does "
            "not start (exit code 6). 0: what the host has left must hold parameters, optimizer "
            "states and gradients."),
      fixed(integer(KEY(run.seed), "Seed of initial weights and dropout.", from(0, kMaxSeed))),
      integer(KEY(run.log_every), "Steps between progress lines.", from(1, kMaxSteps)),
      integer(KEY(run.eval_every),
              "Steps between validations; the last step is always validated. 0: only the last "
              "step. -1: never.",
              or_else(-1, from(0, kMaxSteps))),
      count(KEY(run.eval_batches),
            "Global batches per validation. 0: the whole validation split, with run.eval_every=0 "
            "at most a tenth of run.steps."),
      count(KEY(run.skip_non_finite),
            "Maximum consecutive steps with a non-finite loss or gradient norm; they change no "
            "parameter, and the last ends the run with exit code 5. 0: the first ends it. "
            "Overflows of a dynamic loss scale do not count."),
      pair_of(
          "run.spikes", MEMBER(run.spike_zscore), MEMBER(run.spike_window),
          "Loss spikes: robust z-score (0: off) and number of previous losses (8 to 10000), such "
          "as [10, 100]. Half as many losses suffice. Training rewinds to a checkpoint at least "
          "as many steps earlier and skips twice as many batches (docs/numerics.md).",
          from(0, 1e6)),
      count(KEY(run.compare_replicas),
            "Steps between bitwise comparisons of replicated state. A difference ends the run with "
            "exit code 4 and names the rank. 0: only at checkpoints."),
      number(KEY(run.hang_report_s),
             "Seconds without progress within a step after which a rank is reported as hung. 0: "
             "never.",
             from(0, 1e6)),
      count(KEY(run.trace),
            "Step whose instructions are timed on every rank (trace.json, timeline.svg, "
            "node_costs.json). 0: none."),
  };
}

std::vector<Field> checkpoint_fields() {
  return {
      count(KEY(checkpoint.every), "Steps between checkpoints. 0: only at the end of the run."),
      boolean(KEY(checkpoint.async),
              "Asynchronous checkpoints, copied to host memory and written during training. With "
              "states or parameters on nvme, and for the last checkpoint, training waits."),
      count(KEY(checkpoint.keep_last), "Newest checkpoints kept, at least two. 0: all."),
      pair_of(
          "checkpoint.keep_also", MEMBER(checkpoint.keep_every), MEMBER(checkpoint.keep_best),
          "Checkpoints kept in addition to the newest: steps between those kept forever (0: none), "
          "and the number with the lowest validation loss, such as [1000, 2].",
          from(0, kMaxSteps)),
      boolean(KEY(checkpoint.trainable_only),
              "Checkpoints without frozen weights, which are read from model.weights."),
      count(KEY(checkpoint.memory_every),
            "Steps between in-memory snapshots on the hosts, from which `trireme launch` restarts "
            "if they are newer than the newest checkpoint. 0: none."),
  };
}

}  // namespace trireme::config
