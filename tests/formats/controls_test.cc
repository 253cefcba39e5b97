// What the tests of saving find where a protection is off: each is taken away in turn, and the same faults do harm.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "tests/harness/failing_files.h"
#include "tests/harness/memory_files.h"
#include "tests/harness/small_checkpoint.h"
#include "trireme/base/error.h"
#include "trireme/base/os/through_files.h"
#include "trireme/formats/checkpoint_files.h"

namespace trireme::formats::controls_test {
namespace {

using harness::FailingFiles;
using harness::FileFault;
using harness::MemoryFiles;
using harness::SmallCheckpoint;
using os::ThroughFiles;

const Path kControlled = "/checkpoints";

class Protected : public ThroughFiles {
 public:
  using ThroughFiles::ThroughFiles;
};

// Without a name of its own for what is being written: step-N from the first call on.
class InPlace : public ThroughFiles {
 public:
  using ThroughFiles::ThroughFiles;
  int create(const Path& path) override { return ThroughFiles::create(final(path)); }
  int make_directory(const Path& path) override {
    return ThroughFiles::make_directory(final(path));
  }
  int fsync_directory(const Path& path) override {
    return ThroughFiles::fsync_directory(final(path));
  }
  int rename(const Path& from, const Path& to) override {
    return final(from) == to ? 0 : ThroughFiles::rename(from, to);
  }
  os::Status status(const Path& path) override { return ThroughFiles::status(final(path)); }
  std::unique_ptr<os::Contents> read(const Path& path) override {
    return ThroughFiles::read(final(path));
  }

 private:
  static Path final(const Path& path) {
    std::string text = path.string();
    if (const std::size_t at = text.find(".tmp"); at != std::string::npos) text.erase(at, 4);
    return text;
  }
};

// Without reading back: what is read is what was given to it, whatever the disk has taken.
class Believing : public ThroughFiles {
 public:
  using ThroughFiles::ThroughFiles;
  int create(const Path& path) override {
    const int file = ThroughFiles::create(path);
    names_[file] = path;
    return file;
  }
  ssize_t pwrite(int file, std::span<const std::byte> bytes, std::int64_t offset) override {
    const ssize_t taken = ThroughFiles::pwrite(file, bytes, offset);
    if (taken <= 0) return taken;
    std::string& given = given_[names_.at(file)];
    given.resize(std::max(given.size(), static_cast<std::size_t>(offset + taken)));
    std::memcpy(given.data() + offset, bytes.data(), static_cast<std::size_t>(taken));
    return taken;
  }
  std::unique_ptr<os::Contents> read(const Path& path) override {
    class Given : public os::Contents {
     public:
      explicit Given(const std::string& text) : text_(text) {}
      std::span<const std::byte> bytes() const override {
        return std::as_bytes(std::span(text_.data(), text_.size()));
      }

     private:
      std::string text_;
    };
    const auto found = given_.find(path);
    return found == given_.end() ? ThroughFiles::read(path)
                                 : std::make_unique<Given>(found->second);
  }

 private:
  std::map<int, Path> names_;
  std::map<Path, std::string> given_;
};

struct Harm {
  int tries = 0;
  int half =
      0;  // times that the newest directory that is called a checkpoint is not what was saved
  int taken = 0;    // times that the newest usable one is not
  int refused = 0;  // saves that said that they had failed
};

// Step 2 is saved with a fault at each call of it in turn, step 1 being there.
template <typename Protection>
Harm save_with(FileFault fault) {
  Harm harm;
  for (bool fired = true; fired; ++harm.tries) {
    MemoryFiles memory;
    memory.make_directory(kControlled);
    SmallCheckpoint().save(memory, kControlled, 1);
    FailingFiles failing(memory);
    Protection files(failing);
    failing.fail(harm.tries, fault);
    try {
      SmallCheckpoint().save(files, kControlled, 2);
    } catch (const Error&) {
      ++harm.refused;
    }
    fired = failing.calls() > harm.tries;
    const auto intact = [&](const Path& directory) {
      try {
        return SmallCheckpoint().intact(memory, directory);
      } catch (const Error&) {
        return false;
      }
    };
    const bool second = memory.status(kControlled / "step-2").kind != os::Kind::kAbsent;
    harm.half += !intact(kControlled / (second ? "step-2" : "step-1"));
    const auto newest = newest_checkpoint(kControlled, CheckpointCheck::kManifest, memory);
    harm.taken += !newest || !intact(newest->path);
  }
  return harm;
}

TEST(Control, WithAllProtectionsNoFaultDoesHarm) {
  for (const FileFault fault : {FileFault::kKill, FileFault::kLie, FileFault::kTurnBit}) {
    const Harm harm = save_with<Protected>(fault);
    EXPECT_GE(harm.tries, 12);
    EXPECT_EQ(harm.half, 0);
    EXPECT_EQ(harm.taken, 0);
  }
}

// P2, S12: killed while it writes in place, the newest directory is half a checkpoint, which its name does not tell.
TEST(Control, WithoutARenameAKillLeavesHalfACheckpoint) {
  EXPECT_GT(save_with<InPlace>(FileFault::kKill).half, 5);
}

// S4: a disk that lies is believed, and what a look at the manifest takes is not what was saved.
TEST(Control, WithoutReadingBackALieIsTakenForACheckpoint) {
  for (const FileFault fault : {FileFault::kLie, FileFault::kTurnBit}) {
    const Harm harm = save_with<Believing>(fault);
    EXPECT_EQ(harm.refused, 0);
    EXPECT_GT(harm.half, 1);
    EXPECT_GT(harm.taken, 0);
  }
}

// S6 to S8: where only sizes and the manifest are looked at, damage, and files that changed places, are taken.
TEST(Control, WithoutDigestsDamageIsTaken) {
  const auto newest_after = [](const auto& harm, CheckpointCheck check) {
    MemoryFiles files;
    files.make_directory(kControlled);
    SmallCheckpoint().save(files, kControlled, 1);
    SmallCheckpoint().save(files, kControlled, 2);
    harm(files);
    return newest_checkpoint(kControlled, check, files)->manifest.step;
  };
  const Path first = kControlled / "step-2/rank-0.safetensors",
             other = kControlled / "step-2/rank-1.safetensors";
  const auto flip = [&](MemoryFiles& files) {
    files.disk().nodes.at(files.disk().find(first)).bytes.back() ^= 1;
  };
  const auto swap = [&](MemoryFiles& files) {
    std::swap(files.disk().nodes.at(files.disk().find(first)).bytes,
              files.disk().nodes.at(files.disk().find(other)).bytes);
  };
  EXPECT_EQ(newest_after(flip, CheckpointCheck::kEveryByte), 1);
  EXPECT_EQ(newest_after(swap, CheckpointCheck::kEveryByte), 1);
  EXPECT_EQ(newest_after(flip, CheckpointCheck::kManifest), 2);
  EXPECT_EQ(newest_after(swap, CheckpointCheck::kManifest), 2);
}

}  // namespace
}  // namespace trireme::formats::controls_test
