// Ledger: bytes by kind that are live while a list runs, line by line.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "trireme/plan/memory.h"

namespace trireme::plan {

class Ledger {
 public:
  void add(MemoryKind kind, std::int64_t bytes) { live_[static_cast<std::size_t>(kind)] += bytes; }
  // When the line that runs has ended.
  void drop_after(MemoryKind kind, std::int64_t bytes) { after_.emplace_back(kind, bytes); }
  // Memory that exists while the line runs only.
  void transient(MemoryKind kind, std::int64_t bytes) {
    add(kind, bytes);
    drop_after(kind, bytes);
  }

  const MemoryPoint& live() const { return live_; }
  // Adds live bytes while the line runs to `account`.
  void record(int line, MemoryAccount& account) const {
    account.at_line.push_back(live_);
    std::int64_t total = 0;
    for (std::size_t kind = 0; kind < live_.size(); ++kind) {
      total += live_[kind];
      account.peak[kind] = std::max(account.peak[kind], live_[kind]);
    }
    if (total <= account.peak_total) return;
    account.peak_total = total;
    account.peak_line = line;
  }
  void end_line() {
    for (const auto& [kind, bytes] : std::exchange(after_, {})) add(kind, -bytes);
  }

 private:
  MemoryPoint live_{};
  std::vector<std::pair<MemoryKind, std::int64_t>> after_;
};

}  // namespace trireme::plan
