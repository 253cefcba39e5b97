// Run directories: what is refused, what is written, and what a run is resumed with.
#include "trireme/job/runs/run_directory.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "tests/config/error_of.h"
#include "tests/harness/scratch_directory.h"
#include "trireme/job/runs/read_job.h"

namespace trireme::runs::run_directory_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class RunDirectories : public ::testing::Test {
 protected:
  RunDirectory open(const std::string& resume = "auto") const {
    return {run_.string(), "tiny", resume, [](const std::string&) {}};
  }
  std::string refusal(const std::string& resume = "auto") const {
    return config::usage_error_of([&] { open(resume); });
  }

  harness::ScratchDirectory scratch_;
  Path run_ = scratch_ / "run";
};

TEST_F(RunDirectories, AreCreatedByPrepareAlone) {
  RunDirectory run = open();
  EXPECT_FALSE(std::filesystem::exists(run_));
  EXPECT_FALSE(run.resume());
  config::Job job;
  job.model.layers = 3;
  run.prepare(job, "a vocabulary", "nproc 2\n");
  EXPECT_EQ(config::load_job(run_ / kLockedJobName).model.layers, 3);
  EXPECT_EQ(read_file(run_ / "vocabulary.json"), "a vocabulary");
  EXPECT_EQ(read_file(run_ / kPlaceName), "nproc 2\n");
}

TEST_F(RunDirectories, RefuseWhatIsNoRunAndWhatIsInUse) {
  std::filesystem::create_directories(run_);
  write_file_synced(run_ / "letter.txt", "mine");
  EXPECT_THAT(refusal(), HasSubstr("is not empty and is not a run"));
  std::filesystem::remove(run_ / "letter.txt");
  RunDirectory run = open();
  run.prepare({}, "", "");
  EXPECT_THAT(refusal(), HasSubstr("is in use by a run that has not ended"));
}

TEST_F(RunDirectories, AreResumedWithTheirOwnJobAndRanks) {
  {
    RunDirectory run = open();
    run.prepare({}, "", "nproc 2\n");
  }
  const JobOptions found = with_job_of_run({}, run_, false);
  EXPECT_EQ(found.file, (run_ / kLockedJobName).string());
  EXPECT_EQ(found.nproc, 2);
  EXPECT_THAT(found.assignments, ElementsAre(StartsWith("data.tokenizer=")));
  EXPECT_FALSE(with_job_of_run({}, run_, true).nproc);
  EXPECT_EQ(with_job_of_run({.file = "other.yaml"}, run_, false).file, "other.yaml");
  EXPECT_THAT(config::usage_error_of([&] { with_job_of_run({}, scratch_ / "none", false); }),
              HasSubstr("there is no"));
  replace_file(run_ / kPlaceName, "two\n");
  EXPECT_THROW(with_job_of_run({}, run_, false), Error);
}

TEST_F(RunDirectories, NamesOfFreshRunsAreNotTaken) {
  const Path first = fresh_run("tiny");
  EXPECT_THAT(first.string(), StartsWith("runs/tiny-"));
  EXPECT_FALSE(std::filesystem::exists(first));
}

}  // namespace
}  // namespace trireme::runs::run_directory_test
