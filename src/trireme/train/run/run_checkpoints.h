// RunCheckpoints: what a run begins with, and the checkpoints it leaves.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "trireme/base/clock.h"
#include "trireme/checkpoint/saver.h"
#include "trireme/data/loaders/source.h"
#include "trireme/train/callbacks.h"
#include "trireme/train/job_session.h"
#include "trireme/train/trainer.h"
#include "trireme/train/watch/memory_snapshots.h"

namespace trireme::train {

// Belongs to one rank; the end of every checkpoint is reported to the callbacks. Every function is collective.
class RunCheckpoints {
 public:
  // All of them outlive it.
  RunCheckpoints(const TrainSetup& setup, const loaders::Sources& data, JobSession& steps,
                 comm::World& world, const Callbacks& callbacks);

  // Fills the session with what is newest of the snapshots in memory and setup.resume or, where the run is a new one, with
  // model.weights. Returns the steps done.
  // Throws Error{kData} where they are of other data or another base, Error{kUsage} where fixed keys differ.
  std::int64_t begin();

  // The source if it was memory; also reports unusable checkpoints.
  std::string resumed() const;
  void report_refused();

  // Into memory, after `step` steps.
  void snapshot(std::int64_t step);
  // After `step` steps. One at a time: a disk that is slower than checkpoint.every gets fewer of them.
  void save(std::int64_t step, std::optional<double> eval_loss);
  // No later checkpoint follows, so it is written at once, without overlap. Throws Error{kData} if it fails.
  void save_last(std::int64_t step, std::optional<double> eval_loss);
  // Continues a checkpoint in progress, between two steps.
  void poll();
  // Waits for what is under way.
  void finish();

  // The checkpoint that training returned to because of a spike.
  struct Rewind {
    std::int64_t step = 0;
    loaders::BatchRange left_out;
    double lost_s = 0;  // since that checkpoint, as far as in this process and not lost before
  };
  // Loads the newest usable checkpoint of at most `last` steps and continues from it without the batches from there to
  // the spike's. The checkpoint records this from then on, and later ones are deleted. Nothing if there is no such
  // checkpoint. Throws Error{kData} if the disk fails.
  std::optional<Rewind> rewind(const Spike& spike, std::int64_t last);

  const Path& newest() const { return newest_; }  // empty: none
  std::int64_t failed() const { return failed_; }
  std::int64_t left_out() const { return left_out_; }  // due while another was under way
  SnapshotCount snapshots() const { return memory_ ? memory_->count() : SnapshotCount(); }

 private:
  Path root() const { return setup_.out / "checkpoints"; }
  formats::Manifest load(const Path& directory, checkpoint::Files files = checkpoint::Files::kAll);
  // With optim.from_weights: parameters and optimizer states.
  void continue_weights();
  Path newest_anywhere();
  bool from_memory() const { return !found_.directory.empty(); }
  void finish_on_disk();
  void check_base(const formats::Manifest& manifest, const Path& directory) const;
  checkpoint::Header header(std::int64_t step, std::optional<double> eval_loss) const;
  double kept_s() const { return clock_.seconds() - lost_s_; }
  void report_saved(const checkpoint::Saved& saved);

  const TrainSetup& setup_;
  const config::Job& job_;
  const loaders::Sources& data_;
  JobSession& job_session_;
  exec::Units& units_;
  const std::vector<model::UnitSpec>& specs_;
  comm::World& world_;
  const Callbacks& callbacks_;
  std::string base_;  // of what checkpoints leave out
  checkpoint::Saver saver_;
  std::optional<MemorySnapshots> memory_;
  checkpoint::InMemory::Found found_;  // there, when the run began
  std::int64_t on_disk_ = 0;           // the newest step there, then
  std::string other_senders_;  // of the checkpoint, whose residuals went to those of this job
  std::vector<formats::Event> refused_;  // on rank 0: what was of no use
  Path newest_;
  Stopwatch clock_;
  double lost_s_ = 0;  // of it, to rewinds
  std::map<std::int64_t, double>
      begun_;  // of each checkpoint of this process, after how much that was not lost
  std::int64_t failed_ = 0, left_out_ = 0;
};

}  // namespace trireme::train
