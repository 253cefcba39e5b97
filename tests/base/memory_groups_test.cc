#include "trireme/base/memory_groups.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/formats/scratch.h"

namespace trireme::memory_groups_test {
namespace {

class MemoryKills : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) const {
    const Path file = root_ / name;
    std::filesystem::create_directories(file.parent_path());
    root_.write(name, text);
  }
  std::optional<std::int64_t> kills() const { return memory_kills(root_.path()); }

  formats::Scratch root_;
};

TEST_F(MemoryKills, AreThoseOfTheNearestGroupThatCounts) {
  EXPECT_EQ(kills(), std::nullopt);
  write("proc/vmstat", "oom_kill 40\n");
  write("proc/self/cgroup", "0::/slice/job\n");
  EXPECT_EQ(kills(), 40) << "of the machine";
  write("sys/fs/cgroup/slice/memory.events", "low 0\noom 7\noom_kill 5\noom_group_kill 0\n");
  EXPECT_EQ(kills(), 5);
  write("sys/fs/cgroup/slice/job/memory.events", "low 0\noom 3\noom_kill 2\n");
  EXPECT_EQ(kills(), 2);
}

TEST_F(MemoryKills, AreFoundInTheFirstVersionOfGroups) {
  write("proc/self/cgroup", "4:memory:/docker/abc\n3:cpu,cpuacct:/other\n0::/\n");
  write("sys/fs/cgroup/memory/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 9\n");
  EXPECT_EQ(kills(), 9) << "a container sees its own group as the mounted one";
  write("sys/fs/cgroup/memory/docker/abc/memory.oom_control", "under_oom 0\noom_kill 1\n");
  EXPECT_EQ(kills(), 1);
}

}  // namespace
}  // namespace trireme::memory_groups_test
