#include "trireme/job/runs/run_directory.h"

#include <unistd.h>

#include <ctime>
#include <filesystem>
#include <optional>

#include "trireme/base/error.h"
#include "trireme/checkpoint/convert/peft_weights.h"
#include "trireme/checkpoint/convert/weights.h"
#include "trireme/formats/checkpoint_draft.h"
#include "trireme/formats/event.h"

namespace trireme::runs {
namespace {

namespace fs = std::filesystem;

constexpr char kCheckpoints[] = "checkpoints";
constexpr char kLock[] = ".lock";

void write_if_other(const Path& file, const std::string& text) {
  std::error_code absent;
  if (!fs::is_regular_file(file, absent) || read_file(file) != text) replace_file(file, text);
}

// The directory itself or the nearest one above it that exists must be writable.
void check_writable(const Path& path) {
  Path above = fs::absolute(path).lexically_normal();
  std::error_code cause;
  while (!fs::exists(above, cause) && above.has_relative_path()) above = above.parent_path();
  if (!fs::is_directory(above, cause))
    fail(ErrorKind::kUsage,
         "cannot create the run directory {}: {} is not a directory; choose another with --out",
         path.string(), above.string());
  if (::access(above.c_str(), W_OK | X_OK) != 0)
    fail(ErrorKind::kUsage,
         "cannot write the run directory {}: no permission in {}; choose another with --out",
         path.string(), above.string());
}

// Ignores files that a launcher writes there, and those of a rank that was killed while it made the directory.
bool is_as_good_as_empty(const Path& path) {
  for (const fs::directory_entry& entry : fs::directory_iterator(path)) {
    const std::string name = entry.path().filename().string();
    if (name != kLock && name != formats::kEventsName && name != kGenerationName &&
        name != kFaultNotesName && name != kJobName &&
        !name.starts_with(std::string(kLockedJobName) + ".tmp-") &&
        !name.starts_with(std::string(kGenerationName) + ".tmp-"))
      return false;
  }
  return true;
}

// A killed process may hold it until the last of its children has ended.
bool lock_soon(std::optional<FileLock>& lock, const Path& file) {
  constexpr int kLooks = 100, kApartUs = 50'000;
  for (int look = 0; look < kLooks; ++look) {
    lock.emplace(file, FileLock::Wait::kNo);
    if (lock->locked()) return true;
    lock.reset();
    ::usleep(kApartUs);
  }
  return false;
}

bool has_checkpoints(const Path& path) {
  return !formats::list_checkpoints(path / kCheckpoints).empty();
}

}  // namespace

RunDirectory::RunDirectory(const std::string& out, const std::string& name,
                           const std::string& resume, const Note& note,
                           formats::CheckpointCheck check)
    : path_(out.empty() ? fresh_run(name) : Path(out)) {
  look();
  if (resume == "never") {
    if (has_checkpoints(path_))
      fail(ErrorKind::kUsage,
           "{} holds checkpoints of an earlier run and --resume never would overwrite them; choose "
           "another --out, or leave --resume out to continue from the newest",
           path_.string());
  } else if (resume == "auto") {
    find_newest(path_ / kCheckpoints, note, check);
  } else {
    find_given(resume, note);
  }
}

void RunDirectory::look() const {
  check_writable(path_);
  if (!fs::exists(path_)) return;
  const bool run = fs::exists(path_ / kLockedJobName) || fs::is_directory(path_ / kCheckpoints);
  if (!run && !is_as_good_as_empty(path_))
    fail(ErrorKind::kUsage, "{} is not empty and is not a run; choose another directory with --out",
         path_.string());
  std::optional<FileLock> nobody;
  if (fs::exists(path_ / kLock) && !lock_soon(nobody, path_ / kLock))
    fail(ErrorKind::kUsage,
         "{} is in use by a run that has not ended; wait for it, or choose another --out",
         path_.string());
}

void RunDirectory::find_newest(const Path& root, const Note& note, formats::CheckpointCheck check) {
  commit_complete(note);
  std::optional<formats::NewestCheckpoint> newest = formats::newest_checkpoint(root, check);
  if (!newest) return;
  refused_ = std::move(newest->refused);
  resume_ = Resume{std::move(newest->path), std::move(newest->manifest)};
}

// Under the lock, so that no run writes there.
void RunDirectory::commit_complete(const Note& note) const {
  std::optional<FileLock> lock;
  if (!fs::exists(path_ / kLock) || !lock_soon(lock, path_ / kLock)) return;
  for (const Path& directory :
       formats::CheckpointDraft::commit_complete(os::real_file_system(), path_ / kCheckpoints))
    note(fmt::format("{} was complete when its run ended before committing it; it is committed now",
                     directory.string()));
}

void RunDirectory::find_given(const Path& given, const Note& note) {
  const Path checkpoint = find_checkpoint(given, note);
  resume_ = Resume{checkpoint, formats::verify_checkpoint(checkpoint)};
  for (const formats::CheckpointEntry& other : formats::list_checkpoints(path_ / kCheckpoints))
    if (other.step > resume_->manifest.step ||
        !fs::equivalent(checkpoint.parent_path(), path_ / kCheckpoints))
      fail(ErrorKind::kUsage,
           "{} holds {}, which continuing from {} would overwrite; choose another --out",
           path_.string(), other.path.filename().string(), checkpoint.string());
}

void RunDirectory::prepare(const config::Job& job, const std::string& vocabulary,
                           const std::string& place, const std::string& need) {
  make_directories(path_);
  if (!lock_soon(lock_, path_ / kLock))
    fail(ErrorKind::kUsage,
         "{} is in use by a run that has not ended; wait for it, or choose another --out",
         path_.string());
  // A run that resumes unchanged writes nothing here: the disk may be full.
  write_if_other(path_ / kLockedJobName, config::print_yaml(job));
  if (!vocabulary.empty()) write_if_other(path_ / text::kVocabularyName, vocabulary);
  if (!place.empty()) write_if_other(path_ / kPlaceName, place);
  if (!need.empty()) write_if_other(path_ / kNeedName, need);
}

std::string tokenizer_of_run(const Path& run, const config::Job& job) {
  const std::string& tokenizer = job.data.tokenizer;
  const bool named =
      tokenizer == "bytes" || tokenizer == "characters" || tokenizer.starts_with("bpe:");
  const Path kept = run / text::kVocabularyName;
  std::error_code absent;
  return named || !fs::exists(kept, absent) ? tokenizer
                                            : fs::absolute(kept).lexically_normal().string();
}

Path fresh_run(const std::string& name) {
  char time[32];
  const std::time_t now = std::time(nullptr);
  std::strftime(time, sizeof time, "%Y%m%d-%H%M%S", std::gmtime(&now));
  const Path first = Path("runs") / (name + "-" + time);
  Path path = first;
  for (int k = 2; fs::exists(path); ++k) path = first.string() + "-" + std::to_string(k);
  return path;
}

void check_directory(const Path& path) {
  if (!fs::is_directory(path))
    fail(ErrorKind::kData,
         "{}: no such directory; needs a run directory or one of its checkpoints/step-N",
         path.string());
}

bool is_checkpoint(const Path& path) {
  return fs::exists(path / formats::kManifestName) || path.filename().string().starts_with("step-");
}

Path checkpoint_root(const Path& path) {
  return fs::is_directory(path / kCheckpoints) ? path / kCheckpoints : path;
}

Path find_checkpoint(const Path& path, const Note& note) {
  check_directory(path);
  if (is_checkpoint(path)) return fs::canonical(path);
  convert::refuse_peft(path);
  const std::optional<formats::NewestCheckpoint> newest =
      formats::newest_checkpoint(checkpoint_root(path));
  if (!newest)
    fail(
        ErrorKind::kData,
        "{}: holds no checkpoint (step-N below it or below its checkpoints), and no config.json of "
        "a Hugging Face model",
        path.string());
  if (!newest->refused.empty())
    note(fmt::format("{} is used; newer checkpoints cannot be: {}", newest->path.string(),
                     name_refused(newest->refused)));
  return newest->path;
}

Path find_model(const Path& path, const Note& note) {
  return convert::is_hugging_face(path) ? fs::absolute(path).lexically_normal()
                                        : find_checkpoint(path, note);
}

std::string name_refused(const std::vector<formats::CheckpointEntry>& refused) {
  std::string text;
  for (std::size_t i = 0; i < refused.size(); ++i) {
    if (i > 0) text += i + 1 == refused.size() ? " and " : ", ";
    text += refused[i].path.filename().string();
    if (i == 0) text += fmt::format(" ({})", refused[i].problem);
  }
  return text;
}

}  // namespace trireme::runs
