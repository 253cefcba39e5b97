// How training goes: the optimizer, the run, its checkpoints.
#include "trireme/config/fields/field_kinds.h"
#include "trireme/config/fields/field_lists.h"

namespace trireme::config {

std::vector<Field> optim_fields() {
  return {
      fixed(choice(KEY(optim.name), "Optimizer; adamw decays weights of two or more dims only.",
                   {{"adamw", Optimizer::kAdamW}})),
      number(KEY(optim.lr), "Peak learning rate.", above(0, 100)),
      number(KEY(optim.min_lr), "Learning rate at the end of decay (linear, cosine, wsd).",
             from(0, 100)),
      count(KEY(optim.warmup_steps), "Steps of linear warm-up from warmup_lr to lr."),
      number(KEY(optim.warmup_lr), "Learning rate that warm-up begins at; not above lr.",
             from(0, 100)),
      count(KEY(optim.decay_steps),
            "Step at which min_lr is reached, warm-up included; 0: run.steps."),
      choice(KEY(optim.schedule),
             "Learning rate after warm-up; wsd stays at lr and decays linearly at the end.",
             {{"constant", LrSchedule::kConstant},
              {"linear", LrSchedule::kLinear},
              {"cosine", LrSchedule::kCosine},
              {"wsd", LrSchedule::kWsd}}),
      number(KEY(optim.wsd_decay_fraction), "Last part of decay_steps in which wsd decays.",
             from(0, 1)),
      number(KEY(optim.weight_decay), "Decoupled weight decay, scaled by the learning rate.",
             from(0, 100)),
      optional_number(KEY(optim.weight_decay_end),
                      "Weight decay at decay_steps, which it nears along half a cosine without "
                      "warm-up; -1: it stays as it is.",
                      from(0, 100)),
      two_numbers(KEY(optim.betas), "AdamW's decay rates of the first and second moment.",
                  half_open(0, 1)),
      number(KEY(optim.eps), "AdamW's epsilon.", above(0, 1)),
      number(KEY(optim.clip), "Largest global gradient norm; 0: no clipping.", from(0, 1e9)),
      fixed(choice(KEY(optim.states),
                   "How moments are kept: auto, in precision.master; int8, as 8-bit codes with a "
                   "scale for every 256 of them, which needs parallel.tp=1.",
                   {{"auto", OptimizerStates::kMaster}, {"int8", OptimizerStates::kInt8}})),
      boolean(KEY(optim.from_weights),
              "Whether moments, count of updates and loss scale come from model.weights too, which "
              "must be a checkpoint of the same model. The run has no warm-up. Its schedules begin "
              "at its first step. On the same data it begins after the last sample of that run."),
  };
}

std::vector<Field> run_fields() {
  return {
      choice(KEY(run.device), "Where ranks compute; cuda: one process a GPU.",
             {{"cpu", Device::kCpu}, {"cuda", Device::kCuda}}),
      integer(KEY(run.steps), "Optimizer steps of the whole run.", from(1, kMaxSteps)),
      fixed(integer(KEY(run.global_batch), "Samples per step over all ranks.", from(1, kMaxBatch))),
      fixed(integer(KEY(run.micro_batch), "Samples per forward and backward of one rank.",
                    from(1, kMaxBatch))),
      choice(
          KEY(run.batch_scope),
          "What a loss that compares samples of a batch (family clip; hvjepa with vicreg.weight) "
          "sees at once of a rank's: micro, one micro-batch, which must be all of them; "
          "gradcache, those of all its micro-batches, for which every forward comes before the "
          "first backward (parallel.schedule=gpipe); with recompute.policy=uniform and segments "
          "of all blocks little but features waits in between.",
          {{"micro", BatchScope::kMicro}, {"gradcache", BatchScope::kGradcache}}),
      boolean(KEY(run.find_micro_batch),
              "Before training, find the largest micro_batch, of those that divide a rank's "
              "samples of global_batch, with which the job fits run.memory_limit or, without one, "
              "the machine: by the plan's forecast, then by a trial of two steps. Micro-batches "
              "are the leaves of canonical sums, so another one is another run to the bit."),
      bytes(KEY(run.memory_limit),
            "The most memory that a rank may need, its share of the process counted in; a job "
            "whose forecast is above it does not start (exit code 6); 0: no limit."),
      fixed(integer(KEY(run.seed), "Seed of initial weights and dropout.", from(0, kMaxSeed))),
      integer(KEY(run.log_every), "Steps between progress lines.", from(1, kMaxSteps)),
      integer(KEY(run.eval_every),
              "Steps between validations; the last step is always validated. 0: only the last "
              "step; -1: never.",
              or_else(-1, from(0, kMaxSteps))),
      count(KEY(run.eval_batches),
            "Global batches per validation. 0: the whole validation split; with eval_every=0 at "
            "most a tenth of run.steps."),
      count(KEY(run.skip_non_finite),
            "How many steps in a row may have a loss or gradient norm that is not finite: they "
            "change no parameter, the rank and tensor where it began are named, and the last one "
            "ends the run with exit code 5; 0: the first does. Overflows under a dynamic loss "
            "scale do not count."),
      number(KEY(run.spike_zscore),
             "Robust z-score from which on a step's loss is a spike: (loss - median) / (1.4826 x "
             "median distance from it, 0.01 nats at least) of the losses before it; 10, say. "
             "Training then goes back to a checkpoint and leaves out the batches from there to the "
             "spike (docs/numerics.md). 0: off.",
             from(0, 1e6)),
      integer(KEY(run.spike_window),
              "Losses that a step's is compared with, the last ones; half as many are enough.",
              from(8, 10000)),
      integer(KEY(run.spike_rewind),
              "A spike sends training back to the newest checkpoint that is at least so many steps "
              "older; where there is none it goes on.",
              from(1, kMaxSteps)),
      count(KEY(run.spike_skip),
            "Batches left out after going back, counted from the next one; those up to the spike's "
            "always are."),
      count(KEY(run.spike_limit),
            "How often training may go back without getting past the step that it went back from; "
            "the next spike ends the run with exit code 5. 0: the first does."),
      count(KEY(run.compare_replicas),
            "Steps between comparisons of what several ranks hold alike, bit for bit; every "
            "checkpoint is compared before it is written, in memory too. Where replicas differ the "
            "run ends with "
            "exit code 4, and the rank that is alone is named. 0: never."),
      number(KEY(run.hang_report_s),
             "Seconds after which a rank that does nothing within a step is named, with what every "
             "rank was at; three times the longest that one was silent before, if that is more. 0: "
             "never.",
             from(0, 1e6)),
      number(KEY(run.hang_restart_s),
             "Seconds after which a rank that was named and still does nothing is stopped with all "
             "others: `trireme launch` starts them again. At once, where its process is stopped or "
             "ranks wait for each other in a circle.",
             from(0, 1e6)),
      count(KEY(run.trace),
            "The step of which every rank's lines are timed: trace.json, timeline.svg and "
            "node_costs.json in the run directory; 0: none."),
  };
}

std::vector<Field> checkpoint_fields() {
  return {
      count(KEY(checkpoint.every), "Steps between checkpoints; 0: only at the end of the run."),
      boolean(KEY(checkpoint.async),
              "Checkpoints of checkpoint.every are copied in host memory and written while "
              "training goes on; else, and where states or parameters are offloaded to nvme, "
              "training waits for the disk. The last one of a run is always waited for."),
      count(KEY(checkpoint.keep_last),
            "Checkpoints kept, newest first; the two newest whole ones always stay; 0: all."),
      count(KEY(checkpoint.keep_every),
            "Beside keep_last, those of every so many steps are kept; 0: none."),
      count(KEY(checkpoint.keep_best),
            "Beside keep_last, so many with the lowest validation loss are kept."),
      boolean(KEY(checkpoint.trainable_only),
              "Checkpoints leave out what does not train; what reads them takes it from "
              "model.weights."),
      count(KEY(checkpoint.memory_every),
            "Steps between snapshots kept in the memory of the hosts, from which `trireme launch` "
            "starts ranks again where they are newer than the newest checkpoint; another launch "
            "does not see them. 0: none."),
      integer(KEY(checkpoint.memory_distance),
              "Each host keeps, beside its own part of a snapshot, that of the host so many places "
              "before it, in a circle: what a lost host had is then on another. With one host "
              "there is no second copy.",
              from(1, 1 << 20)),
  };
}

}  // namespace trireme::config
