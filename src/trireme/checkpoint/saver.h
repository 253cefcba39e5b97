// Saver: writes the checkpoints of one run, at once or asynchronously, and removes older ones.
#pragma once

#include <cstdint>
#include <functional>
#include <future>
#include <optional>
#include <string>
#include <vector>

#include "trireme/base/clock.h"
#include "trireme/base/fs.h"
#include "trireme/base/os/file_system.h"
#include "trireme/checkpoint/checkpoint.h"
#include "trireme/checkpoint/parcels.h"
#include "trireme/checkpoint/share.h"
#include "trireme/checkpoint/snapshot.h"
#include "trireme/formats/checkpoint_draft.h"
#include "trireme/formats/retention.h"

namespace trireme::checkpoint {

// How a checkpoint ended.
struct Saved {
  std::int64_t step = 0;
  Path path{};            // empty: it is not there, and nothing of it is
  std::string problem{};  // why not, or why older ones could not be deleted; one line
  double seconds = 0;     // from its beginning
  double standing_s = 0;  // of which this rank did nothing else
};

// kAtOnce reads tensors where they are, one at a time; kAsync copies them first.
enum class SaveMode { kAtOnce, kAsync };

// One rank's part of it. Every function except those of one line is collective. Ranks agree in these functions, and
// only there, on the progress of a checkpoint, so that asynchronous writing never communicates while training does.
class Saver {
 public:
  struct Setup {
    Path root;  // must be there
    formats::RetentionRule keep{};
    os::FileSystem* files = &os::real_file_system();
    // Where not all ranks share ROOT: the host of each, every host having a ROOT of its own. There each keeps what its
    // ranks write, what those of another do (`replicas`), and the manifest.
    std::vector<int> hosts{};
    std::vector<int>
        replicas{};  // by rank the one that keeps another copy of what it writes; -1: none
    std::string what = "checkpoint";  // for people
    std::function<void()> before{};   // on rank 0; where it throws there is no checkpoint
  };
  // All of them outlive it.
  Saver(Setup setup, const exec::Units& units, const std::vector<model::UnitSpec>& specs,
        comm::World& world);
  // Waits for what this rank writes. Where other ranks are lost, the files stay for the next start, which commits them
  // if they are all there.
  ~Saver();
  Saver(const Saver&) = delete;
  Saver& operator=(const Saver&) = delete;

  // A checkpoint has begun and its end is not reported yet.
  bool under_way() const { return phase_ != Phase::kNone; }
  // Begins ROOT/step-N, while none is under way. Tensors may change as soon as it returns.
  void begin(const Header& header, SaveMode mode);
  // Between two steps: continues if all ranks have done their part, and waits for none. Reports the end once; failures
  // are the same on every rank.
  std::optional<Saved> poll();
  // Waits for the end of what is under way.
  Saved finish();

  // While none is under way: ROOT/step-N of this manifest becomes the newest (formats::go_back). Error{kData} on every
  // rank.
  void go_back(const formats::Manifest& manifest);

  // Retention need not read this one again: every byte of it was verified.
  void trust(std::int64_t step) { retention_.trust(step); }
  // Those of later steps have been taken away.
  void forget_after(std::int64_t step) { retention_.forget_after(step); }

 private:
  enum class Phase { kNone, kMake, kWrite, kReplicate, kCommit, kEnded };
  enum class Where { kHere, kAside };
  void enter(Phase phase, Where where, std::function<Share()> body);
  void advance();
  void next(const std::vector<Share>& shares);
  void next_write();
  void next_commit();
  bool leads() const;
  bool outlives_ranks() const { return setup_.hosts.empty(); }
  std::vector<Parcel> replicas() const;
  Share make();
  Share write() const;
  Share commit(const formats::Manifest& manifest);
  Saved take();

  Setup setup_;
  const exec::Units& units_;
  const std::vector<model::UnitSpec>& specs_;
  comm::World& world_;
  formats::Retention retention_;  // on the rank that leads, as the draft
  Snapshot snapshot_;
  Parcels parcels_;
  std::optional<formats::CheckpointDraft> draft_;
  Phase phase_ = Phase::kNone;
  SaveMode mode_ = SaveMode::kAtOnce;
  Header header_;
  Saved saved_;
  Stopwatch watch_;
  std::vector<exec::StateSlice> slices_;  // of this rank
  std::vector<Share> shares_;             // of all ranks; files have digests once they are written
  std::string mine_;                      // this rank's part, done; empty: it is at it
  std::future<Share> pending_;            // last, so that it ends before what it uses
};

}  // namespace trireme::checkpoint
