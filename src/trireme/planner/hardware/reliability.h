// Reliability: how often a run stops, how often it should save, and what of its time is left.
#pragma once

namespace trireme::planner {

// Stops of a run, as a Poisson process.
struct Failures {
  double mttf_s = 0;     // mean seconds between them; infinite: none
  double restart_s = 0;  // from a stop to the next step, without steps that are repeated
};

// Mean time to failure of a run on `gpus` GPUs with the rate of a cluster file; infinite for a rate of 0.
double mttf_s(double failures_per_gpu_hour, double gpus);

// Cost of a checkpoint.
struct Checkpointing {
  double stall_s = 0;  // seconds for which each stops training
  double write_s =
      0;  // until a run can start from it, counted from the beginning of the stall, at least stall_s
};

// Training waits for `bytes` to be written at `rate` bytes a second.
Checkpointing write_at_once(double bytes, double rate);
// Training waits for a copy of them in host memory at `copy_rate`, and continues while the copy is written.
Checkpointing write_async(double bytes, double rate, double copy_rate);

// Seconds of training between checkpoints with the most useful time, by the model of `goodput`: never shorter than what
// is still being written, infinite without failures.
double best_interval_s(const Failures& failures, const Checkpointing& checkpoint);

// Shares of a long run's time; they add up to 1.
struct Goodput {
  double interval_s = 0;  // seconds of training between checkpoints
  double useful = 0;      // steps that lasted
  double stalled = 0;     // by checkpoints of those
  double repeated = 0;    // steps and stalls that a stop undid
  double restarting = 0;
};

// Exact for exponential failures that also occur during a restart. With s = interval + stall and e = write - stall, a
// lasting interval takes M exp((restart + e) / M) (exp(s / M) - 1) seconds. This is Daly 2006, equation 20, for e = 0;
// an unwritten checkpoint costs like a longer restart. Throws Error{kUsage} where a checkpoint begins before the
// previous one is written.
Goodput goodput(const Failures& failures, const Checkpointing& checkpoint, double interval_s);

// Machines that may be taken away.
struct Spot {
  double preemption_s =
      0;  // mean seconds between preemptions of any host of the run; infinite: none
  double notice_s = 0;
  double replace_s = 0;  // seconds until a replacement exists, in addition to the restart
};

// Whether a checkpoint can be written between notice and loss.
bool saves_in_time(const Spot& spot, const Checkpointing& checkpoint);

// Preemptions in addition to failures. With enough notice no step is repeated, and each preemption costs a write and a
// restart; without it, preemptions are failures. To be on the safe side, the checkpoint at a notice does not shorten
// the loss of a later failure.
Goodput goodput(const Failures& failures, const Checkpointing& checkpoint, const Spot& spot,
                double interval_s);
double best_interval_s(const Failures& failures, const Checkpointing& checkpoint, const Spot& spot);

}  // namespace trireme::planner
