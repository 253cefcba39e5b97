#include "trireme/base/free_memory.h"

#include <gtest/gtest.h>

#include "tests/formats/scratch.h"

namespace trireme::free_memory_test {
namespace {

class FreeMemory : public testing::Test {
 protected:
  FreeMemory() {
    write("proc/meminfo", "MemTotal: 4000 kB\nMemFree: 9 kB\nMemAvailable: 1000 kB\n");
  }
  void write(const std::string& name, const std::string& text) { root_.write(name, text); }
  std::optional<std::int64_t> free() const { return free_memory(root_.path()); }
  formats::Scratch root_;
};

constexpr std::int64_t kAvailable = 1000 * 1024;

TEST_F(FreeMemory, IsTheMachinesWhereNoGroupSaysLess) {
  EXPECT_EQ(free(), kAvailable);
  write("proc/self/cgroup", "4:memory:/\n1:name=systemd:/\n0::/\n");
  EXPECT_EQ(free(), kAvailable);
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("sys/fs/cgroup/memory/memory.usage_in_bytes", "5000\n");
  EXPECT_EQ(free(), kAvailable);
  std::filesystem::remove(root_ / "proc/meminfo");
  EXPECT_EQ(free(), 9223372036854771712 - 5000);
  std::filesystem::remove(root_ / "proc/self/cgroup");
  EXPECT_EQ(free(), std::nullopt);
  EXPECT_GT(free_memory().value_or(0), 0);  // of this machine
}

// The tightest of a group and those above it; page cache is free.
TEST_F(FreeMemory, IsWithinTheGroupsOfVersion2) {
  write("proc/self/cgroup", "0::/slice/job\n");
  write("sys/fs/cgroup/slice/job/memory.max", "max\n");
  write("sys/fs/cgroup/slice/job/memory.current", "100000\n");
  EXPECT_EQ(free(), kAvailable);
  write("sys/fs/cgroup/slice/memory.max", "500000\n");
  write("sys/fs/cgroup/slice/memory.current", "300000\n");
  EXPECT_EQ(free(), 200'000);
  write("sys/fs/cgroup/slice/memory.stat", "anon 1\ninactive_file 20000\nactive_file 10000\n");
  EXPECT_EQ(free(), 230'000);
  write("sys/fs/cgroup/slice/memory.current", "600000\n");
  EXPECT_EQ(free(), 0);
}

TEST_F(FreeMemory, LimitIsThatOfTheTightestGroup) {
  EXPECT_EQ(memory_limit(root_.path()), std::nullopt);
  write("proc/self/cgroup", "0::/slice/job\n");
  write("sys/fs/cgroup/slice/job/memory.max", "max\n");
  EXPECT_EQ(memory_limit(root_.path()), std::nullopt);
  write("sys/fs/cgroup/slice/memory.max", "500000\n");
  write("sys/fs/cgroup/memory.max", "700000\n");
  EXPECT_EQ(memory_limit(root_.path()), 500'000);
  write("proc/self/cgroup", "4:memory:/\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(memory_limit(root_.path()), std::nullopt) << "as version 1 writes none";
}

TEST_F(FreeMemory, IsWithinTheGroupsOfVersion1) {
  write("proc/self/cgroup", "4:memory:/docker/abc\n3:cpu,cpuacct:/other\n0::/\n");
  write("sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "700000\n");
  write("sys/fs/cgroup/memory/docker/abc/memory.usage_in_bytes", "600000\n");
  write("sys/fs/cgroup/memory/docker/abc/memory.stat", "active_file 5\ntotal_active_file 1000\n");
  EXPECT_EQ(free(), 101'000);
  // In a container its own group is the one that is mounted.
  std::filesystem::remove_all(root_ / "sys/fs/cgroup/memory/docker");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "650000\n");
  write("sys/fs/cgroup/memory/memory.usage_in_bytes", "600000\n");
  EXPECT_EQ(free(), 50'000);
}

}  // namespace
}  // namespace trireme::free_memory_test
