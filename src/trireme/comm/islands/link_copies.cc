// IslandLink: what an island keeps of the tape, for a new leader, and what it hands to islands that join.
#include <algorithm>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/comm/islands/link.h"

namespace trireme::comm {
namespace {

constexpr std::size_t kMostFetches = 1024;  // chunks of states that wait
constexpr double kFetched_s = 60;  // since its last chunk, after which an older state is closed

}  // namespace

void IslandLink::show(const Path& checkpoint) {
  const std::lock_guard lock(mutex_);
  to_show_ = checkpoint;
  ring();
}

// A new leader may lack entries that were not committed: they come again, or others.
void IslandLink::go_back() {
  next_ = std::min(next_, std::max(start_, committed_));
  known_.erase(known_.lower_bound(next_), known_.end());
  last_digest_ = next_ == start_ ? start_digest_ : known_.at(next_ - 1).line;
  for (auto& [key, offered] : offers_)
    if (offered.merged && *offered.merged >= next_) offered.merged.reset();
}

void IslandLink::take(const islands::Welcome& welcome) {
  if (welcome.term < std::max(hello_.term, term_))
    fail(
        ErrorKind::kUsage,
        "the leader at {} is of term {}, this island has followed one of term {}: its tape is old. "
        "Start the leader with a new --dir and --from with the copies of islands, RUNDIR/islands",
        os::print(config_.leader), welcome.term, std::max(hello_.term, term_));
  term_ = welcome.term;
  held_ = copy_ ? welcome.copied : 0;
  acknowledged_ = 0;
  if (!welcome_) welcome_ = welcome.entries;
  trouble_.clear();
}

void IslandLink::commit(std::int64_t entries) {
  committed_ = std::max(committed_, entries);
  std::erase_if(offers_, [&](const auto& one) {
    return one.second.merged && *one.second.merged < committed_;
  });
}

// A checkpoint that was deleted meanwhile is not shown.
void IslandLink::open_shown(Frames& frames) {
  Path checkpoint;
  {
    const std::lock_guard lock(mutex_);
    checkpoint = std::exchange(to_show_, {});
  }
  if (checkpoint.empty()) return;
  try {
    using islands::StateFiles;
    StateFiles files(checkpoint, islands::state_of(checkpoint), StateFiles::For::kReading);
    const std::lock_guard lock(mutex_);
    std::erase_if(shown_,
                  [](const auto& one) { return one.second.fetched.seconds() > kFetched_s; });
    newest_ = files.about().key;
    frames.send(islands::print(files.about()));
    shown_.insert_or_assign(newest_, Shown{.files = std::move(files)});
  } catch (const Error& error) {
    const std::lock_guard lock(mutex_);
    trouble_ = error.what();
  }
}

void IslandLink::take(Frames& frames, const islands::Fetch& fetch) {
  const auto found = shown_.find(fetch.key);
  if (found == shown_.end()) return frames.send(islands::print(islands::State{.key = fetch.key}));
  found->second.fetched = Stopwatch();
  const std::int64_t all = islands::pieces_of(found->second.files.about().bytes());
  for (std::int64_t i = fetch.from; i < std::min(all, fetch.from + fetch.count); ++i)
    if (fetches_.size() < kMostFetches) fetches_.push_back({.key = fetch.key, .from = i});
}

// The copy may end with entries of a leader of an earlier term, which no island has applied.
void IslandLink::copy_line(const islands::News& news) {
  if (!copy_ || news.index != held_) return;
  const bool there = news.index < copy_->size();
  if (there && copy_->line(news.index) != news.line) {
    if (copy_->entries()[static_cast<std::size_t>(news.index)].term >= term_ ||
        news.index < hello_.position)
      fail(ErrorKind::kUsage,
           "entry {} of the leader's tape differs from the one in {}: it is another tape. Start "
           "the leader with the directory of the first, or the island with a new run directory",
           news.index, config_.copy.string());
    copy_->cut(news.index);
  }
  if (news.index == copy_->size()) copy_->append_line(news.line);
  ++held_;
}

// Entries of the copy whose means are here as well: a leader that is lost must be replaceable from a majority of copies.
void IslandLink::acknowledge(Frames& frames) {
  std::int64_t whole = held_;
  for (const auto& [index, known] : known_)
    if (!known.here()) {
      whole = std::min(whole, index);
      break;
    }
  if (whole == acknowledged_) return;
  acknowledged_ = whole;
  frames.send(islands::print(islands::Have{whole}));
}

// Codes stay until the merge that has them, or that came without them, is committed.
void IslandLink::keep_codes(std::int64_t index, const islands::Entry& entry) {
  for (auto& [key, offered] : offers_) {
    const islands::Offer& offer = offered.offer;
    if (offer.fragment != entry.fragment || offer.round > entry.round || offered.merged) continue;
    offered.merged = index;
    const bool own = std::ranges::any_of(entry.from, [&](const islands::Contribution& one) {
      return one.island == hello_.island && one.run == hello_.run && offer.round == entry.round;
    });
    if (!own || offered.bytes->empty() || config_.copy.empty()) continue;
    const auto way = islands::Way::kDifference;
    islands::write_parts(
        islands::Tape::blob(config_.copy, index, islands::Tape::codes_name(hello_.island)),
        hello_.recipe.bytes(entry.fragment, way),
        islands::places(hello_.recipe, hello_.parts, entry.fragment, way), *offered.bytes);
  }
  commit(committed_);
}

void IslandLink::keep_mean(std::int64_t index, const Known& known) {
  if (config_.copy.empty()) return;
  const auto way = islands::Way::kMean;
  islands::write_parts(islands::Tape::blob(config_.copy, index, islands::Tape::mean_name()),
                       hello_.recipe.bytes(known.entry.fragment, way),
                       islands::places(hello_.recipe, hello_.parts, known.entry.fragment, way),
                       known.mean->bytes());
}

// A state waits for codes, which others wait for.
void IslandLink::pump_states(Frames& frames) {
  while (!fetches_.empty() && frames.unsent() < static_cast<std::size_t>(islands::kPiece)) {
    const islands::Want want = fetches_.front();
    fetches_.pop_front();
    const auto found = shown_.find(want.key);
    if (found == shown_.end()) continue;
    try {
      frames.send(found->second.files.piece(want.from));
    } catch (const Error& error) {  // of the disk: this state can be taken no more
      trouble_ = error.what();
      if (want.key == newest_) newest_ = 0;
      shown_.erase(found);
    }
  }
}

}  // namespace trireme::comm
