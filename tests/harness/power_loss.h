// What a disk may hold when power goes: what was synced, and of the rest any part.
#pragma once

#include <algorithm>
#include <functional>
#include <random>
#include <vector>

#include "tests/harness/memory_files.h"

namespace trireme::harness {

inline constexpr std::size_t kSector = 512;

// Calls are durable once the file or directory that they changed was synced. Of the others each happened or not, in
// any combination, writes by sector, so that a rename may be there before the bytes behind it.
class PowerLoss {
 public:
  // After the first `calls` of the log.
  PowerLoss(const std::vector<DiskOp>& log, std::size_t calls) {
    for (std::size_t i = 0; i < calls; ++i) {
      const DiskOp& op = log[i];
      if (op.kind == DiskOp::Kind::kSync || op.kind == DiskOp::Kind::kMark) continue;
      const bool durable =
          std::any_of(log.begin() + static_cast<std::ptrdiff_t>(i),
                      log.begin() + static_cast<std::ptrdiff_t>(calls), [&](const DiskOp& later) {
                        return later.kind == DiskOp::Kind::kSync && later.where == op.where;
                      });
      if (op.kind != DiskOp::Kind::kWrite || durable) {
        parts_.push_back({op, durable});
        pending_ += !durable;
        continue;
      }
      for (std::size_t at = 0; at < op.bytes.size(); at += kSector) {
        DiskOp sector = op;
        sector.offset += static_cast<std::int64_t>(at);
        sector.bytes = op.bytes.substr(at, kSector);
        parts_.push_back({std::move(sector), false});
        ++pending_;
      }
    }
  }

  // use(disk) for all combinations, or for none, all and `samples` at random where there are more than 2^most.
  void for_states(std::size_t most, int samples, std::mt19937_64& random,
                  const std::function<void(Disk)>& use) const {
    if (pending_ <= most) {
      for (std::uint64_t chosen = 0; chosen < std::uint64_t{1} << pending_; ++chosen)
        use(state([&](std::size_t part) { return (chosen >> part & 1) != 0; }));
      return;
    }
    use(state([](std::size_t) { return false; }));
    use(state([](std::size_t) { return true; }));
    for (int i = 0; i < samples; ++i) use(state([&](std::size_t) { return random() % 2 == 0; }));
  }

 private:
  struct Part {
    DiskOp op;
    bool durable;
  };
  Disk state(const std::function<bool(std::size_t)>& happened) const {
    Disk disk;
    std::size_t pending = 0;
    for (const Part& part : parts_)
      if (part.durable || happened(pending++)) disk.apply(part.op);
    return disk;
  }

  std::vector<Part> parts_;
  std::size_t pending_ = 0;
};

}  // namespace trireme::harness
