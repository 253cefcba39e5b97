// Source: where an island's rank gets the entries of the tape from, and takes its codes to: the leader, or a tape.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "trireme/launch/islands/messages.h"

namespace trireme::islands {

class Source {
 public:
  virtual ~Source() = default;
  // Connects as this rank. Returns the number of entries to apply before the first step. Throws Error{kUsage} where the
  // leader refuses it, Error{kPeerLost} where there is none.
  virtual std::int64_t begin(const Hello& hello) = 0;
  // Entries, from the first on, that can be applied at that time (Applied::when): committed, and their means are here.
  virtual std::int64_t ready(std::int64_t when) = 0;
  // Blocks until more than `entries` are ready, some seconds at most.
  virtual void wait(std::int64_t entries) = 0;
  // Why nothing comes, where that is known.
  virtual std::string trouble() { return ""; }
  virtual Entry entry(std::int64_t index) = 0;
  virtual std::uint64_t line(std::int64_t index) = 0;  // the digest of its line
  // This rank's part of the mean of a merge, once.
  virtual std::vector<std::byte> take_mean(std::int64_t index) = 0;
  virtual void offer(const Offer& offer, std::vector<std::byte> bytes) = 0;
  // The island ends. Sent by its first rank.
  virtual void leave(const Leave& leave) = 0;
  // A checkpoint that islands which join may take. Of its first rank.
  virtual void show(const Path& checkpoint) {}
};

// One run of an island, from its tape: entries come when that run applied them, and its codes must be those of the tape.
class TapeSource final : public Source {
 public:
  // The run ends after `last` steps: `stop` is set before that step.
  TapeSource(const Path& directory, int island, std::string run, std::int64_t last,
             std::atomic<int>& stop);

  std::int64_t begin(const Hello& hello) override;
  std::int64_t ready(std::int64_t when) override;
  void wait(std::int64_t entries) override;
  Entry entry(std::int64_t index) override { return tape_.entries().at(index); }
  std::uint64_t line(std::int64_t index) override { return tape_.digest(index); }
  std::vector<std::byte> take_mean(std::int64_t index) override;
  // Throws Error{kData} if the tape has other codes.
  void offer(const Offer& offer, std::vector<std::byte> bytes) override;
  void leave(const Leave& leave) override {}

 private:
  Tape tape_;
  int island_;
  std::string run_;
  std::int64_t last_;
  std::atomic<int>& stop_;
  std::map<std::int64_t, std::int64_t> applied_{};    // by entry: when
  std::set<std::pair<int, std::int64_t>> offered_{};  // fragments and rounds
  std::int64_t next_ = 0, forced_ = 0;
  Hello hello_{};
};

// A run of an island as a replay trains it: up to the last step that was merged, or that a later run began with.
struct Segment {
  int island = 0;
  std::string run{};
  int resumes = -1;        // the segment, of any island, whose checkpoint it continues; -1: none
  std::int64_t first = 0;  // steps before it
  std::int64_t last = 0;   // and after it
  int islands = 1, ranks = 1;
  std::string job{};  // YAML
};
// All of them, each after the one that it continues. Throws Error{kData} where a run began with a checkpoint of no run on
// the tape.
std::vector<Segment> segments_of(const std::vector<Entry>& tape);

}  // namespace trireme::islands
