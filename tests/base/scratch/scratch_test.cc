// Scratch space: what is written comes back, by every engine, from any memory, in whatever pieces the kernel likes;
// what cannot work says so at once.
#include "trireme/base/scratch/scratch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <functional>
#include <random>
#include <thread>
#include <vector>

#include "tests/harness/needs.h"
#include "tests/harness/scratch.h"
#include "tests/harness/scratch_directory.h"
#include "trireme/base/error.h"
#include "trireme/base/scratch/kernel.h"
#include "trireme/base/scratch/pages.h"

namespace trireme::scratch::scratch_test {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;

constexpr std::int64_t kMib = std::int64_t{1} << 20;

// The kernel, but for what a test makes of it.
class Faulty : public Kernel {
 public:
  int set_direct(int file) override { return direct ? direct() : Kernel::set_direct(file); }
  int allocate(int file, std::int64_t bytes) override {
    return space ? space() : Kernel::allocate(file, bytes);
  }
  std::int64_t free_bytes(int file) override { return free ? *free : Kernel::free_bytes(file); }
  int open_ring(unsigned entries, ::io_uring* made) override {
    return ring ? ring() : Kernel::open_ring(entries, made);
  }
  std::int64_t transfer(int file, const Request& request) override {
    const int now = ++under_way;
    for (int seen = most; seen < now && !most.compare_exchange_weak(seen, now);) continue;
    const std::int64_t result = Kernel::transfer(file, request);
    --under_way;
    return result;
  }
  std::int64_t completed(const Request& request, std::int64_t result) override {
    return answer ? answer(request, result) : result;
  }

  std::function<int()> direct, space, ring;
  std::optional<std::int64_t> free;
  std::function<std::int64_t(const Request&, std::int64_t)> answer;
  std::atomic<int> under_way = 0, most = 0;
};

using Directory = harness::ScratchDirectory;

std::string refusal(ErrorKind kind, const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "was accepted";
  return {};
}

struct Way {
  const char* name;
  Engine engine;
  Direct direct;
};
constexpr Way kWays[] = {{"ring_direct", Engine::kIoUring, Direct::kOn},
                         {"ring_cached", Engine::kIoUring, Direct::kOff},
                         {"threads_direct", Engine::kThreads, Direct::kOn},
                         {"threads_cached", Engine::kThreads, Direct::kOff}};

// A test of every way that this machine has; where it has not, the test says why and is skipped.
class EveryWay : public testing::TestWithParam<Way> {
 protected:
  void SetUp() override {
    const scratch::FileOptions options = {
        .directory = directory_.path(), .engine = GetParam().engine, .direct = GetParam().direct};
    TRIREME_NEEDS("disk engine", harness::missing(options));
  }
  std::unique_ptr<Scratch> open(int depth = 0) {
    return open_file({.directory = directory_.path(),
                      .engine = GetParam().engine,
                      .direct = GetParam().direct,
                      .depth = depth,
                      .kernel = &kernel_});
  }

  Directory directory_;
  Faulty kernel_;
};

INSTANTIATE_TEST_SUITE_P(Scratch, EveryWay, testing::ValuesIn(kWays),
                         [](const auto& way) { return std::string(way.param.name); });

std::string noise(std::int64_t bytes, std::uint64_t seed) {
  std::string made(static_cast<std::size_t>(bytes), '\0');
  std::mt19937_64 random(seed);
  for (std::size_t at = 0; at < made.size(); at += 8) {
    const std::uint64_t word = random();
    std::memcpy(&made[at], &word, std::min(made.size() - at, sizeof word));
  }
  return made;
}

// Memory that begins `shift` bytes behind a page.
class Shifted {
 public:
  Shifted(std::int64_t bytes, std::int64_t shift) : pages_(bytes + shift), shift_(shift) {}
  std::byte* data() const { return pages_.data() + shift_; }

 private:
  Pages pages_;
  std::int64_t shift_;
};

void write(Scratch& scratch, const Extent& extent, std::string_view content, std::int64_t shift) {
  const Shifted from(extent.bytes, shift);
  std::memcpy(from.data(), content.data(), content.size());
  scratch.write(extent, from.data(), static_cast<std::int64_t>(content.size())).wait();
}

std::string read(Scratch& scratch, const Extent& extent, std::int64_t bytes, std::int64_t shift) {
  const Shifted to(bytes, shift);
  scratch.read(extent, to.data(), bytes).wait();
  return {reinterpret_cast<const char*>(to.data()), static_cast<std::size_t>(bytes)};
}

// Extents of awkward sizes, written and rewritten, from and to memory on a page and beside one.
void check_contents(Scratch& scratch, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::int64_t> sizes = {0,        1,    4095,         4096,     4097,
                                     kMib - 1, kMib, 3 * kMib + 5, 2 * kMib, 4 * kMib + 4096};
  for (int i = 0; i < 5; ++i) sizes.push_back(static_cast<std::int64_t>(random() % (2 * kMib)) + 1);
  std::vector<Extent> extents;
  for (const std::int64_t size : sizes) extents.push_back(scratch.reserve(size));
  scratch.commit();

  std::vector<std::string> contents;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    contents.push_back(noise(sizes[i], random()));
    EXPECT_EQ(extents[i].offset % kPage, 0);
    write(scratch, extents[i], contents[i], i % 2 == 0 ? 0 : 24);
  }
  for (int i = 0; i < 10; ++i) {
    const std::size_t at = random() % sizes.size();
    contents[at] = noise(sizes[at], random());
    write(scratch, extents[at], contents[at], i % 3 == 0 ? 8 : 0);
  }
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const std::string_view content = contents[i];
    EXPECT_TRUE(read(scratch, extents[i], sizes[i], i % 2 == 0 ? 16 : 0) == content) << sizes[i];
    const std::int64_t half = sizes[i] / 2;
    EXPECT_TRUE(read(scratch, extents[i], half, 0) == content.substr(0, half)) << sizes[i];
    bytes += sizes[i] + half;
  }
  EXPECT_EQ(scratch.traffic().read, bytes);
  EXPECT_GT(scratch.traffic().read_s, 0);
  EXPECT_GT(scratch.traffic().write_s, 0);
}

TEST_P(EveryWay, BringsBackWhatWasWritten) { check_contents(*open(), 1); }

TEST_P(EveryWay, OneRequestAtATimeIsEnough) { check_contents(*open(1), 2); }

TEST_P(EveryWay, GoesOnWhereTheKernelStoppedShort) {
  std::mutex mutex;
  std::mt19937_64 random(3);
  kernel_.answer = [&](const Request&, std::int64_t result) {
    const std::lock_guard lock(mutex);
    if (random() % 8 == 0) return static_cast<std::int64_t>(random() % 2 == 0 ? -EINTR : -EAGAIN);
    return result <= 512 ? result : static_cast<std::int64_t>(1 + random() % 8) * result / 8;
  };
  check_contents(*open(), 3);
}

TEST_P(EveryWay, ManyThreadsAndTransfersAtOnce) {
  const auto scratch = open();
  constexpr int kUsers = 4, kEach = 6;
  constexpr std::int64_t kBytes = 2 * kMib + 4096;
  Extent extents[kUsers][kEach];
  for (auto& row : extents)
    for (Extent& extent : row) extent = scratch->reserve(kBytes);
  scratch->commit();
  std::vector<std::thread> users;
  for (int user = 0; user < kUsers; ++user)
    users.emplace_back([&, user] {
      for (int round = 0; round < 3; ++round) {
        std::vector<std::string> sent;
        std::vector<Pages> memory;
        std::vector<Ticket> tickets;
        for (int i = 0; i < kEach; ++i) {
          sent.push_back(noise(kBytes, static_cast<std::uint64_t>(100 * user + 10 * round + i)));
          memory.emplace_back(kBytes);
          std::memcpy(memory.back().data(), sent.back().data(), kBytes);
          tickets.push_back(scratch->write(extents[user][i], memory.back().data(), kBytes));
        }
        for (int i = 0; i < kEach; ++i) {
          tickets[i].wait();
          EXPECT_TRUE(read(*scratch, extents[user][i], kBytes, 0) == sent[i]);
        }
      }
    });
  for (std::thread& user : users) user.join();
}

TEST_P(EveryWay, AFailureNamesPlaceAndCauseAndHarmsNoOther) {
  const auto scratch = open();
  const Extent good = scratch->reserve(3 * kMib), bad = scratch->reserve(3 * kMib);
  scratch->commit();
  const std::int64_t where = bad.offset + kMib;
  const auto answered = [&](std::int64_t answer) {
    kernel_.answer = [where, answer](const Request& request, std::int64_t result) {
      return request.offset == where ? answer : result;
    };
    const Pages memory(3 * kMib);
    std::fill(memory.data(), memory.data() + 3 * kMib, std::byte{7});
    const Ticket written = scratch->write(bad, memory.data(), 3 * kMib);
    const Ticket beside = scratch->write(good, memory.data(), 3 * kMib);
    const std::string message = refusal(ErrorKind::kData, [&] { written.wait(); });
    EXPECT_TRUE(written.done());
    EXPECT_EQ(refusal(ErrorKind::kData, [&] { written.wait(); }), message);
    beside.wait();
    kernel_.answer = nullptr;
    return message;
  };
  EXPECT_THAT(answered(-EIO),
              AllOf(HasSubstr(directory_.path().string()), HasSubstr("cannot write 1048576 bytes"),
                    HasSubstr(fmt::format("offset {}", where)), HasSubstr("Input/output error")));
  EXPECT_THAT(answered(-ENOSPC), HasSubstr("No space left on device; free space there"));

  kernel_.answer = [](const Request&, std::int64_t) { return std::int64_t{0}; };
  EXPECT_THAT(refusal(ErrorKind::kData, [&] { read(*scratch, good, 4096, 0); }),
              HasSubstr("the file ends before"));
  kernel_.answer = [](const Request&, std::int64_t) { return std::int64_t{-EAGAIN}; };
  EXPECT_THAT(refusal(ErrorKind::kData, [&] { read(*scratch, good, 4096, 0); }),
              HasSubstr("Resource temporarily unavailable"));
}

TEST_P(EveryWay, EndsWithTransfersUnderWay) {
  kernel_.answer = [](const Request&, std::int64_t result) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return result;
  };
  auto scratch = open(2);
  const Extent extent = scratch->reserve(64 * kMib);
  scratch->commit();
  const Pages memory(64 * kMib);
  std::fill(memory.data(), memory.data() + 64 * kMib, std::byte{1});
  const Ticket ticket = scratch->write(extent, memory.data(), 64 * kMib);
  scratch.reset();
  EXPECT_TRUE(ticket.done());
  EXPECT_THAT(refusal(ErrorKind::kInternal, [&] { ticket.wait(); }), HasSubstr("was closed"));
}

TEST_P(EveryWay, AReadDoesNotWaitForAllWritesBeforeIt) {
  kernel_.answer = [](const Request&, std::int64_t result) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    return result;
  };
  const auto scratch = open(1);
  const Extent large = scratch->reserve(64 * kMib), small = scratch->reserve(kPage);
  scratch->commit();
  const Pages memory(64 * kMib), page(kPage);
  std::fill(memory.data(), memory.data() + 64 * kMib, std::byte{1});
  const Ticket written = scratch->write(large, memory.data(), 64 * kMib);
  scratch->read(small, page.data(), kPage).wait();
  EXPECT_FALSE(written.done());
  written.wait();
}

TEST_P(EveryWay, OutlivesItsDirectoryAndLeavesNothingThere) {
  const auto scratch = open();
  const Extent extent = scratch->reserve(kMib);
  EXPECT_TRUE(std::filesystem::is_empty(directory_.path()));
  std::filesystem::remove(directory_.path());
  scratch->commit();
  const std::string content = noise(kMib, 5);
  write(*scratch, extent, content, 0);
  EXPECT_TRUE(read(*scratch, extent, kMib, 0) == content);
}

TEST_P(EveryWay, SaysHowItWorks) {
  const bool ring = GetParam().engine == Engine::kIoUring;
  const bool direct = GetParam().direct == Direct::kOn;
  EXPECT_EQ(open()->describe(), fmt::format("{}, {}", ring ? "io_uring" : "threads",
                                            direct ? "O_DIRECT" : "page cache"));
}

class FileScratch : public testing::Test {
 protected:
  std::unique_ptr<Scratch> open(Engine engine = Engine::kAuto, Direct direct = Direct::kAuto) {
    return open_file(
        {.directory = directory_.path(), .engine = engine, .direct = direct, .kernel = &kernel_});
  }
  Directory directory_;
  Faulty kernel_;
};

TEST_F(FileScratch, FallsBackAndSaysSoOrRefuses) {
  kernel_.ring = [] { return -EPERM; };
  kernel_.direct = [] { return -EINVAL; };
  const auto scratch = open();
  EXPECT_EQ(scratch->describe(),
            "threads (io_uring: Operation not permitted), page cache (O_DIRECT: Invalid argument)");
  check_contents(*scratch, 6);
  EXPECT_THAT(refusal(ErrorKind::kUsage, [&] { open(Engine::kIoUring); }),
              HasSubstr("io_uring is not available: Operation not permitted; use threads"));
  EXPECT_THAT(refusal(ErrorKind::kUsage, [&] { open(Engine::kAuto, Direct::kOn); }),
              HasSubstr("O_DIRECT does not work there: Invalid argument"));
}

TEST_F(FileScratch, AFullDiskIsFoundAtTheStart) {
  kernel_.space = [] { return -ENOSPC; };
  kernel_.free = 1000;
  const auto scratch = open();
  scratch->reserve(5000);
  EXPECT_THAT(refusal(ErrorKind::kData, [&] { scratch->commit(); }),
              AllOf(HasSubstr(directory_.path().string()), HasSubstr("needs 8192 bytes"),
                    HasSubstr("1000 are free"), HasSubstr("No space left on device")));
}

TEST_F(FileScratch, WhereSpaceCannotBeSetAsideItSaysSo) {
  kernel_.space = [] { return -EOPNOTSUPP; };
  const auto scratch = open();
  check_contents(*scratch, 7);
  EXPECT_THAT(scratch->describe(), EndsWith(", space not reserved"));

  kernel_.free = 1000;
  const auto full = open();
  full->reserve(5000);
  EXPECT_THAT(refusal(ErrorKind::kData, [&] { full->commit(); }), HasSubstr("1000 are free"));
}

TEST_F(FileScratch, NeedsADirectory) {
  const Path missing = directory_.path() / "missing";
  EXPECT_THAT(refusal(ErrorKind::kData, [&] { open_file({.directory = missing}); }),
              AllOf(HasSubstr(missing.string()), HasSubstr("No such file or directory")));
}

TEST_F(FileScratch, ThreadsAreAsManyAsAsked) {
  const auto scratch = open_file(
      {.directory = directory_.path(), .engine = Engine::kThreads, .depth = 3, .kernel = &kernel_});
  const Extent extent = scratch->reserve(64 * kMib);
  scratch->commit();
  const Pages memory(64 * kMib);
  std::fill(memory.data(), memory.data() + 64 * kMib, std::byte{1});
  scratch->write(extent, memory.data(), 64 * kMib).wait();
  EXPECT_LE(kernel_.most, 3);
  EXPECT_GE(kernel_.most, 1);
}

TEST(MemoryScratch, BringsBackWhatWasWritten) {
  const auto scratch = open_memory();
  check_contents(*scratch, 8);
  EXPECT_EQ(scratch->describe(), "host memory");
}

TEST(MemoryScratch, TooMuchIsFoundAtTheStart) {
  const auto scratch = open_memory();
  scratch->reserve(std::int64_t{1} << 50);
  EXPECT_THAT(refusal(ErrorKind::kData, [&] { scratch->commit(); }),
              AllOf(HasSubstr("needs 1125899906842624 bytes"), HasSubstr("are free")));
}

// Not when somebody looks.
TEST(Ticket, KnowsWhenItEnded) {
  using Clock = std::chrono::steady_clock;
  const auto scratch = open_memory();
  const Extent extent = scratch->reserve(kMib);
  scratch->commit();
  const std::vector<std::byte> data(kMib);
  const Clock::time_point begun = Clock::now();
  const Ticket ticket = scratch->write(extent, data.data(), kMib);
  while (!ticket.done()) std::this_thread::yield();
  const Clock::time_point seen = Clock::now();
  ticket.wait();
  EXPECT_GE(ticket.ended(), begun);
  EXPECT_LE(ticket.ended(), seen);
}

TEST(Ticket, OfNothingIsDone) {
  const Ticket ticket;
  EXPECT_TRUE(ticket.done());
  ticket.wait();
}

}  // namespace
}  // namespace trireme::scratch::scratch_test
