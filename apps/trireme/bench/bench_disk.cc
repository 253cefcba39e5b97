// trireme bench disk: how fast scratch space is, by each engine, against memcpy and a plain loop.
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>

#include "apps/trireme/output.h"
#include "bench_commands.h"
#include "trireme/base/clock.h"
#include "trireme/base/error.h"
#include "trireme/base/json.h"
#include "trireme/base/median.h"
#include "trireme/base/scratch/pages.h"
#include "trireme/base/scratch/scratch.h"

namespace trireme::app {
namespace {

constexpr std::int64_t kBlock = std::int64_t{1} << 20;

struct Figures {
  double write = 0;  // MB/s
  double read = 0;
  double both = 0;    // of writing one half while the other is read
  double cpu_ms = 0;  // of this process, a GB moved
};

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// One method of moving `bytes`; `both` may be missing.
struct Way {
  std::function<void()> write, read, both;
};

Figures measure(const Way& way, std::int64_t bytes, int repeats) {
  std::vector<double> write, read, both, cpu;
  const auto rate = [&](const std::function<void()>& work) {
    const Stopwatch watch;
    work();
    return static_cast<double>(bytes) / 1e6 / watch.seconds();
  };
  way.write();  // the first write allocates pages and blocks
  for (int repeat = 0; repeat < repeats; ++repeat) {
    const double cpu_before = cpu_seconds();
    write.push_back(rate(way.write));
    read.push_back(rate(way.read));
    cpu.push_back((cpu_seconds() - cpu_before) * 1e3 / (2e-9 * static_cast<double>(bytes)));
    if (way.both) both.push_back(rate(way.both));
  }
  return {.write = median(write),
          .read = median(read),
          .both = way.both ? median(both) : 0,
          .cpu_ms = median(cpu)};
}

Way by_memcpy(std::byte* a, std::byte* b, std::int64_t bytes) {
  const auto size = static_cast<std::size_t>(bytes);
  return {.write = [=] { std::memcpy(b, a, size); }, .read = [=] { std::memcpy(a, b, size); }};
}

// Equivalent of dd with oflag=direct: one block at a time, the next when it is done.
class Loop {
 public:
  Loop(const Path& directory, std::byte* data, std::int64_t bytes)
      : directory_(directory), data_(data), bytes_(bytes) {
    file_ = ::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC | O_DIRECT, 0600);
  }
  ~Loop() {
    if (file_ >= 0) ::close(file_);
  }
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  bool possible() const { return file_ >= 0; }
  Way way() const {
    return {.write = [this] { run("write", ::pwrite); }, .read = [this] { run("read", ::pread); }};
  }

 private:
  template <typename Call>
  void run(const char* verb, const Call& call) const {
    for (std::int64_t at = 0; at < bytes_; at += kBlock) {
      const std::int64_t size = std::min(kBlock, bytes_ - at);
      if (call(file_, data_ + at, static_cast<std::size_t>(size), at) != size)
        fail(ErrorKind::kData, "{}: cannot {} {} bytes: {}", directory_.string(), verb, size,
             std::strerror(errno));
    }
  }

  Path directory_;
  std::byte* data_;
  std::int64_t bytes_;
  int file_ = -1;
};

Way by_scratch(scratch::Scratch& scratch, std::byte* data, std::int64_t bytes) {
  const std::int64_t half = bytes / 2;
  const scratch::Extent first = scratch.reserve(half), second = scratch.reserve(bytes - half);
  scratch.commit();
  const auto run = [=, &scratch](bool write_first, bool write_second) {
    const auto start = [&](bool write, const scratch::Extent& extent, std::byte* at) {
      return write ? scratch.write(extent, at, extent.bytes)
                   : scratch.read(extent, at, extent.bytes);
    };
    const scratch::Ticket one = start(write_first, first, data);
    const scratch::Ticket two = start(write_second, second, data + half);
    one.wait();
    two.wait();
  };
  return {.write = [=] { run(true, true); },
          .read = [=] { run(false, false); },
          .both = [=] { run(true, false); }};
}

}  // namespace

int bench_disk(const BenchDiskOptions& options) {
  check_output(options.json);
  scratch::open_file(
      {.directory = options.dir});  // first of all: whether anything can be made there
  const std::int64_t bytes = options.mib << 20;
  const scratch::Pages memory(bytes), other(bytes);
  for (std::int64_t at = 0; at < bytes; ++at)  // no disk is asked to store zeros
    memory.data()[at] = static_cast<std::byte>((at * 2654435761) >> 13);

  fmt::print("{} MiB in {}, the median of {}\n\n{:<40} {:>10} {:>10} {:>10} {:>10}\n", options.mib,
             options.dir, options.repeats, "", "write MB/s", "read MB/s", "both MB/s", "cpu ms/GB");
  Json rows = Json::array();
  const auto row = [&](const std::string& name, const Way& way) {
    const Figures f = measure(way, bytes, options.repeats);
    const std::string both = way.both ? fmt::format("{:.0f}", f.both) : "";
    fmt::print("{:<40} {:>10.0f} {:>10.0f} {:>10} {:>10.0f}\n", name, f.write, f.read, both,
               f.cpu_ms);
    std::fflush(stdout);
    rows.push_back({{"way", name},
                    {"write_mb_per_s", f.write},
                    {"read_mb_per_s", f.read},
                    {"both_mb_per_s", f.both},
                    {"cpu_ms_per_gb", f.cpu_ms}});
  };
  const auto scratch_row = [&](std::unique_ptr<scratch::Scratch> scratch) {
    row(scratch->describe(), by_scratch(*scratch, memory.data(), bytes));
  };

  row("memcpy, one thread", by_memcpy(memory.data(), other.data(), bytes));
  scratch_row(scratch::open_memory());
  {
    const Loop loop(options.dir, memory.data(), bytes);
    if (loop.possible()) row("loop of 1 MiB, O_DIRECT", loop.way());
  }
  for (const scratch::Direct direct : {scratch::Direct::kAuto, scratch::Direct::kOff})
    for (const scratch::Engine engine : {scratch::Engine::kAuto, scratch::Engine::kThreads})
      scratch_row(scratch::open_file(
          {.directory = options.dir, .engine = engine, .direct = direct, .depth = options.depth}));

  fmt::print(
      "\nboth: one half is written while the other is read. cpu: of this process, writing and "
      "reading; the "
      "kernel's own threads are not in it.\nThe page cache may keep what it has not written "
      "yet.\n");
  if (!options.json.empty())
    write_file_synced(
        options.json,
        Json{{"mib", options.mib}, {"repeats", options.repeats}, {"ways", rows}}.dump(2) + "\n");
  return 0;
}

}  // namespace trireme::app
