#include "trireme/launch/islands/source.h"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <set>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/base/hash.h"

namespace trireme::islands {
namespace {

// Runs, in order of their joins: each after the one whose checkpoint it continues.
struct RunOnTape {
  const Entry* join = nullptr;
  std::int64_t last =
      0;  // step of its last contribution, or of a checkpoint that another run continues
};

std::vector<RunOnTape> runs_of(const std::vector<Entry>& tape) {
  std::vector<RunOnTape> runs;
  const auto raise = [&](const std::string& run, std::int64_t step) {
    for (RunOnTape& one : runs)
      if (one.join->run == run) one.last = std::max(one.last, step);
  };
  for (const Entry& entry : tape) {
    // A run that was left out for a while joins again.
    const auto same = [&](const RunOnTape& run) { return run.join->run == entry.run; };
    if (entry.kind == Entry::Kind::kJoin && std::ranges::none_of(runs, same)) {
      raise(entry.resumes, entry.step);
      runs.push_back({.join = &entry, .last = entry.step});
    }
    for (const Contribution& one : entry.from) raise(one.run, one.step);
  }
  return runs;
}

}  // namespace

TapeSource::TapeSource(const Path& directory, int island, std::string run, std::int64_t last,
                       std::atomic<int>& stop)
    : tape_(Tape::open(directory)),
      island_(island),
      run_(std::move(run)),
      last_(last),
      stop_(stop) {
  const auto note = [&](const std::vector<Applied>& applied) {
    for (const Applied& one : applied) applied_[one.entry] = one.when;
  };
  for (const Entry& entry : tape_.entries()) {
    if (entry.kind == Entry::Kind::kLeave && entry.run == run_) note(entry.applied);
    if (entry.kind == Entry::Kind::kJoin && entry.resumes == run_) note(entry.applied);
    for (const Contribution& one : entry.from)
      if (one.run == run_) note(one.applied);
  }
}

std::int64_t TapeSource::begin(const Hello& hello) {
  hello_ = hello;
  next_ = hello.position;
  for (const Entry& entry : tape_.entries()) {
    if (entry.kind != Entry::Kind::kJoin || entry.run != run_) continue;
    if (entry.machine != hello.machine)
      fail(ErrorKind::kUsage,
           "island {} was computed by \"{}\", here is \"{}\": bits may differ. Replay it there, or "
           "compare its merges alone by --merges",
           island_, entry.machine, hello.machine);
    if (entry.state != hello.state)
      fail(ErrorKind::kData,
           "island {} began with the state of step {} that has digest {}; the replay has {} there",
           island_, entry.step, hex64(entry.state), hex64(hello.state));
  }
  if (const std::string other = difference(tape_.recipe().value(), hello.recipe); !other.empty())
    fail(ErrorKind::kData, "island {} merges other weights than {}: {}", island_,
         tape_.directory().string(), other);
  return ready(after_sending(hello.step));
}

std::int64_t TapeSource::ready(std::int64_t when) {
  if (step_at(when) + 1 >= last_) stop_ = SIGTERM;
  // A merge of own codes cannot come before they are sent.
  const auto waits = [&](const Entry& entry) {
    return std::ranges::find(entry.from, run_, &Contribution::run) != entry.from.end() &&
           !offered_.contains({entry.fragment, entry.round});
  };
  for (; next_ < tape_.size(); ++next_) {
    const auto known = applied_.find(next_);
    if (known != applied_.end() ? known->second > when : next_ >= forced_) break;
    if (waits(entry(next_))) break;
  }
  return next_;
}

// Training waits for a merge of its own codes, whose application was not written down any more.
void TapeSource::wait(std::int64_t entries) {
  if (entries >= tape_.size())
    fail(ErrorKind::kData, "{}: ends after {} entries, but island {} waits for another",
         tape_.directory().string(), tape_.size(), island_);
  forced_ = entries + 1;
}

std::vector<std::byte> TapeSource::take_mean(std::int64_t index) {
  const std::vector<std::byte> whole = tape_.mean(index);
  std::vector<std::byte> part;
  for (const Place& place :
       places(*tape_.recipe(), hello_.parts, entry(index).fragment, Way::kMean))
    part.insert(part.end(), whole.begin() + place.offset,
                whole.begin() + place.offset + place.bytes);
  return part;
}

void TapeSource::offer(const Offer& offer, std::vector<std::byte> bytes) {
  offered_.insert({offer.fragment, offer.round});
  for (std::int64_t index = 0; index < tape_.size(); ++index) {
    const Entry& entry = tape_.entries()[static_cast<std::size_t>(index)];
    if (entry.kind != Entry::Kind::kMerge || entry.fragment != offer.fragment ||
        entry.round != offer.round)
      continue;
    for (const Contribution& one : entry.from) {
      if (one.run != run_ || one.island != island_) continue;
      const std::vector<std::byte> whole = tape_.codes(index, one);
      std::size_t at = 0;
      bool equal = one.step == offer.step;
      for (const Place& place :
           places(*tape_.recipe(), hello_.parts, entry.fragment, Way::kDifference)) {
        equal = equal && std::memcmp(whole.data() + place.offset, bytes.data() + at,
                                     static_cast<std::size_t>(place.bytes)) == 0;
        at += static_cast<std::size_t>(place.bytes);
      }
      if (!equal)
        fail(ErrorKind::kData,
             "island {} sends other codes than the tape has in entry {} (fragment {}, round {}): "
             "after step {}, the tape after step {}. Equal bits need the machine and LibTorch of "
             "the tape's run, and its data",
             island_, index, entry.fragment, entry.round, offer.step, one.step);
    }
  }
}

std::vector<Segment> segments_of(const std::vector<Entry>& tape) {
  std::vector<Segment> segments;
  for (const RunOnTape& run : runs_of(tape)) {
    const Entry& join = *run.join;
    const auto origin = std::ranges::find(segments, join.resumes, &Segment::run);
    if (join.step > 0 && (join.resumes.empty() || origin == segments.end()))
      fail(ErrorKind::kData,
           "island {} began with a checkpoint of step {}, which no run on the tape has reached",
           join.island, join.step);
    if (run.last <= join.step) continue;
    segments.push_back(
        {.island = join.island,
         .run = join.run,
         .resumes = join.step == 0 ? -1 : static_cast<int>(origin - segments.begin()),
         .first = join.step,
         .last = run.last,
         .islands = join.islands,
         .ranks = join.ranks,
         .job = join.job});
  }
  return segments;
}

}  // namespace trireme::islands
