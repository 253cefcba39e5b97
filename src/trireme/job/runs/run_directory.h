// RUNDIR: where a process may write, and the checkpoint from which a run resumes.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "trireme/config/job.h"
#include "trireme/data/text/vocabulary.h"
#include "trireme/formats/checkpoint_files.h"
#include "trireme/job/runs/file_lock.h"

namespace trireme::runs {

inline constexpr char kLockedJobName[] = "job.lock.yaml";
// File that `trireme finetune` writes there before a rank does.
inline constexpr char kJobName[] = "job.yaml";
// File that `trireme launch` writes there, perhaps before a rank does.
inline constexpr char kGenerationName[] = ".generation";
// Where ranks note which faults made on purpose have happened.
inline constexpr char kFaultNotesName[] = ".faults";
// How many ranks a run had, and as what: "ranks 2" or "nproc 2", as --ranks and --nproc say it.
inline constexpr char kPlaceName[] = ".place";
// Memory need of the ranks of rank 0's host, for the line about one that the kernel killed (text_of a HostNeed).
inline constexpr char kNeedName[] = ".need";

// Receives a sentence for the user.
using Note = std::function<void(const std::string&)>;

struct Resume {
  Path checkpoint;
  formats::Manifest manifest;
};

// A run directory that was looked at; nothing is created before prepare().
class RunDirectory {
 public:
  // `out` empty: runs/NAME-TIME. Throws Error{kUsage} if it is no directory, belongs to another user, cannot be
  // written, is in use by another run, or holds checkpoints that `resume` (auto, never or a path) forbids. Throws
  // Error{kData} if the checkpoint to resume from cannot be used. `note` gets the newer checkpoints that a path to
  // resume from skips. It also gets checkpoints that `auto` has committed, which a run that ended meanwhile had written
  // completely. With CheckpointCheck::kManifest `auto` reads manifests alone, for ranks that check the rest themselves.
  RunDirectory(const std::string& out, const std::string& name, const std::string& resume,
               const Note& note,
               formats::CheckpointCheck check = formats::CheckpointCheck::kEveryByte);

  const Path& path() const { return path_; }
  const std::optional<Resume>& resume() const { return resume_; }
  // Newer checkpoints that were passed over, each with the reason.
  const std::vector<formats::CheckpointEntry>& refused() const { return refused_; }

  // Creates and locks it and writes job.lock.yaml and, where there are any, vocabulary.json, .place and .need.
  void prepare(const config::Job& job, const std::string& vocabulary, const std::string& place,
               const std::string& need = "");
  void keep_lock_across_exec() { lock_->keep_across_exec(); }

 private:
  void look() const;
  void commit_complete(const Note& note) const;
  void find_newest(const Path& root, const Note& note, formats::CheckpointCheck check);
  void find_given(const Path& given, const Note& note);

  Path path_;
  std::optional<Resume> resume_;
  std::vector<formats::CheckpointEntry> refused_;
  std::optional<FileLock> lock_;
};

// runs/NAME-TIME, which does not exist.
Path fresh_run(const std::string& name);

// Throws Error{kData} where `path` is no directory.
void check_directory(const Path& path);
// The tokenizer of a run whose job is `job`: a path that a job names may be gone, and the run keeps its vocabulary.
std::string tokenizer_of_run(const Path& run, const config::Job& job);
// Input of generate, evaluate and predict: a directory of Hugging Face's files itself, else as find_checkpoint.
Path find_model(const Path& path, const Note& note);
// Whether it is one step-N rather than a run.
bool is_checkpoint(const Path& path);
// Where the step-N directories of a run lie, given the run or that place itself.
Path checkpoint_root(const Path& path);

// A run directory, its checkpoints, or one step-N: the step-N meant (the newest that is usable, every byte checked). If
// newer ones cannot be used, `note` gets their names. Throws Error{kData}.
Path find_checkpoint(const Path& path, const Note& note);

// "step-4 (why) and step-3": newer checkpoints that were passed over, with the reason of the newest.
std::string name_refused(const std::vector<formats::CheckpointEntry>& refused);

}  // namespace trireme::runs
