// The machine's own files: new ones only, whole or not at all, and trees that go.
#include "trireme/base/os/durable.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/harness/failing_files.h"
#include "trireme/base/error.h"

namespace trireme::os::durable_test {
namespace {

using harness::FailingFiles;
using harness::FileFault;
using testing::HasSubstr;

class DurableTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "env-XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  void TearDown() override { std::filesystem::remove_all(path_); }

  template <typename Call>
  static std::string refusal(const Call& call) {
    try {
      call();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kData);
      return error.what();
    }
    return {};
  }

  FileSystem& files_ = real_file_system();
  Path path_;
};

TEST_F(DurableTest, WritesReadsListsAndRemoves) {
  make_directory(files_, path_ / "d");
  write_new_file(files_, path_ / "d/a", "what it holds");
  EXPECT_EQ(read_file(path_ / "d/a"), "what it holds");
  EXPECT_EQ(files_.read(path_ / "d/a")->bytes().size(), 13u);
  const Status status = files_.status(path_ / "d/a");
  EXPECT_EQ(status.kind, Kind::kFile);
  EXPECT_EQ(status.size, 13);
  EXPECT_EQ(files_.status(path_ / "d").kind, Kind::kDirectory);
  EXPECT_EQ(files_.status(path_ / "none").kind, Kind::kAbsent);
  rename(files_, path_ / "d/a", path_ / "d/b");
  EXPECT_EQ(list(files_, path_ / "d"), std::vector<std::string>{"b"});
  fsync_directory(files_, path_ / "d");
  make_directory(files_, path_ / "d/e");
  std::filesystem::create_symlink(path_, path_ / "d/e/up");
  rename_and_remove(files_, path_ / "d", path_ / "d.away");
  EXPECT_TRUE(std::filesystem::is_empty(path_)) << "and nothing else has gone";
}

TEST_F(DurableTest, RefusesNamesThatAreTaken) {
  write_new_file(files_, path_ / "a", "first");
  EXPECT_THAT(refusal([&] { write_new_file(files_, path_ / "a", "second"); }),
              HasSubstr("a: cannot create: File exists"));
  std::filesystem::create_symlink(path_ / "elsewhere", path_ / "link");
  EXPECT_THAT(refusal([&] { write_new_file(files_, path_ / "link", "x"); }),
              HasSubstr("link: cannot create: File exists"));
  EXPECT_EQ(read_file(path_ / "a"), "first");
  EXPECT_FALSE(std::filesystem::exists(path_ / "elsewhere"));
}

// Neither followed nor waited for.
TEST_F(DurableTest, ReadsRegularFilesOnly) {
  ::mkfifo((path_ / "pipe").c_str(), 0600);
  std::filesystem::create_symlink("/dev/zero", path_ / "link");
  EXPECT_THAT(refusal([&] { files_.read(path_ / "pipe"); }), HasSubstr("pipe: is not a regular"));
  EXPECT_THAT(refusal([&] { files_.read(path_ / "link"); }), HasSubstr("link: is a symbolic link"));
  EXPECT_THAT(refusal([&] { files_.read(path_); }), HasSubstr("is not a regular file"));
  EXPECT_THAT(refusal([&] { files_.read("/dev/zero"); }), HasSubstr("is not a regular file"));
  EXPECT_EQ(files_.status(path_ / "pipe").kind, Kind::kOther);
  EXPECT_EQ(files_.status(path_ / "link").kind, Kind::kOther);
}

TEST_F(DurableTest, AFileThatCannotBeFinishedIsTakenAway) {
  const std::string text(5000, 'x');
  int nth = 0;
  for (const char* cause :
       {"cannot create: No space", "cannot write: No space", "cannot fsync: No space"}) {
    FailingFiles files(files_);
    files.fail(nth++, FileFault::kError, ENOSPC);
    EXPECT_THAT(refusal([&] { write_new_file(files, path_ / "a", text); }), HasSubstr(cause));
    EXPECT_FALSE(std::filesystem::exists(path_ / "a"));
  }
  for (const FileFault fault : {FileFault::kLie, FileFault::kTurnBit}) {
    FailingFiles files(files_);
    files.fail(1, fault);
    EXPECT_THAT(refusal([&] { write_new_file(files, path_ / "bad", text); }),
                HasSubstr("holds other bytes than were written"));
    std::filesystem::remove(path_ / "bad");
  }
  FailingFiles files(files_);
  files.fail(1, FileFault::kShort);
  write_new_file(files, path_ / "a", text);
  EXPECT_EQ(read_file(path_ / "a"), text) << "completed in full";
}

}  // namespace
}  // namespace trireme::os::durable_test
