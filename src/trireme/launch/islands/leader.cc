#include "trireme/launch/islands/leader.h"

#include <fmt/format.h>

#include <algorithm>

#include "trireme/base/error.h"

namespace trireme::islands {
namespace {

// A running mean over about ten values.
void follow(double& mean, double value) { mean = mean > 0 ? 0.9 * mean + 0.1 * value : value; }

}  // namespace

Leader::Leader(const Config& config, const std::vector<Entry>& tape, std::optional<Recipe> recipe,
               double now)
    : config_(config), recipe_(std::move(recipe)) {
  if (recipe_) {
    rounds_.resize(static_cast<std::size_t>(recipe_->fragments));
    open_.resize(rounds_.size());
  }
  for (const Entry& entry : tape) {
    count(entry);
    term_ = std::max(term_, entry.term + 1);
    if (entry.kind == Entry::Kind::kJoin) {
      islands_ = entry.islands;
      members_[entry.island] = {.run = entry.run, .since = now};
    } else if (entry.kind == Entry::Kind::kLeave) {
      members_.erase(entry.island);
    } else if (entry.kind == Entry::Kind::kMerge) {
      if (!recipe_)
        fail(ErrorKind::kUsage,
             "this tape has merges but no recipe.json. Restore it, or start the leader with a new "
             "--dir and --from with the copies of islands, RUNDIR/islands");
      if (entry.fragment >= recipe_->fragments)
        fail(ErrorKind::kData,
             "the tape merges fragment {}, its recipe.json has {} fragments; restore both from one "
             "copy",
             entry.fragment, recipe_->fragments);
      rounds_[static_cast<std::size_t>(entry.fragment)] = entry.round + 1;
    }
  }
  append({.kind = Entry::Kind::kTerm});
}

void Leader::count(const Entry& entry) {
  const bool merges = entry.kind == Entry::Kind::kMerge && recipe_;
  const std::int64_t bytes = merges ? recipe_->bytes(entry.fragment, Way::kMean) : 0;
  mean_bytes_.push_back((mean_bytes_.empty() ? 0 : mean_bytes_.back()) + bytes);
  ++entries_;
}

void Leader::append(Entry entry) {
  entry.term = term_;
  count(entry);
  new_.push_back(std::move(entry));
}

// Copies that a leader of an earlier term has filled may end with entries that no island has applied.
std::int64_t Leader::copied(const Hello& hello, const LinesHere& lines) const {
  const bool same = hello.copied <= entries_ && hello.copied_line == lines.copied;
  return same || hello.copied == 0 ? hello.copied : std::min(hello.copied, hello.position);
}

std::string Leader::other_tape(const Hello& hello, const LinesHere& lines) const {
  if (hello.line != 0 && lines.position != 0 && hello.line != lines.position)
    return fmt::format(
        "island {} resumes a checkpoint of another tape: entry {} there differs from the one here. "
        "Start the leader with the directory of that tape, or the island without that checkpoint",
        hello.island, hello.position - 1);
  if (hello.term > term_)
    return fmt::format(
        "island {} has followed a leader of term {}, this one is of term {}: its tape is old. "
        "Start the leader with a new --dir and --from with the copies of islands, RUNDIR/islands",
        hello.island, hello.term, term_);
  const bool longer = hello.copied > entries_ && hello.term == term_;
  if (hello.position > entries_ || longer)
    return fmt::format(
        "island {} has {} entries of a tape, this leader has {}. Start the leader with the "
        "directory of that tape, or the island with a new run directory",
        hello.island, std::max(hello.position, hello.copied), entries_);
  return "";
}

std::optional<std::string> Leader::hello(const Hello& hello, double now, const LinesHere& lines) {
  if (const std::string other = other_tape(hello, lines); !other.empty()) return other;
  if (!recipe_) {
    recipe_ = hello.recipe;
    rounds_.resize(static_cast<std::size_t>(recipe_->fragments));
    open_.resize(rounds_.size());
  }
  if (const std::string other = difference(*recipe_, hello.recipe); !other.empty())
    return fmt::format(
        "island {} merges other weights than the islands of this leader: {}. Start all islands "
        "with "
        "one model, network.outer and tensor parallelism",
        hello.island, other);
  if (islands_ == 0) islands_ = hello.islands;
  if (islands_ != hello.islands)
    return fmt::format(
        "--island {}/{}: the islands of this leader share samples among {}. Use --island {}/{}",
        hello.island, hello.islands, islands_, hello.island, islands_);
  const auto found = members_.find(hello.island);
  const bool here = found != members_.end() && found->second.run == hello.run;
  if (!here && found != members_.end() && !found->second.connected.empty())
    return fmt::format(
        "island {} is already connected from another run. End that one, or use another --island",
        hello.island);
  if (!here) {
    drop(hello.island);
    members_[hello.island] = {.run = hello.run, .position = hello.position};
    append({.kind = Entry::Kind::kJoin,
            .island = hello.island,
            .run = hello.run,
            .step = hello.step,
            .position = hello.position,
            .islands = hello.islands,
            .ranks = hello.ranks,
            .applied = hello.applied,
            .resumes = hello.resumes,
            .state = hello.state,
            .machine = hello.machine,
            .job = hello.job});
  }
  Member& member = members_[hello.island];
  member.ranks = hello.ranks;
  member.connected.insert(hello.rank);
  member.since = now;
  if (hello.rank == 0) acknowledged(hello.island, std::min(hello.position, copied(hello, lines)));
  return std::nullopt;
}

bool Leader::offered(int island, int rank, const Offer& offer, double now) {
  const auto found = members_.find(island);
  const auto fragment = static_cast<std::size_t>(offer.fragment);
  if (found == members_.end() || fragment >= rounds_.size() || offer.round != rounds_[fragment])
    return false;
  Open& open = open_[fragment];
  if (open.from.empty()) open.first_at = now;
  Given& given = open.from[island];
  if (given.ranks.empty() && given.what.run.empty()) given.offered_at = now;
  if (given.ranks.contains(rank)) return false;
  given.what.island = island;
  given.what.run = found->second.run;
  if (rank == 0) {
    given.what.step = offer.step;
    given.what.weight = offer.weight;
    given.what.applied = offer.applied;
    if (offer.step_s > 0) {
      follow(step_s_, offer.step_s);
      double& own = found->second.step_s;
      own = own > 0 ? (own + offer.step_s) / 2 : offer.step_s;
    }
  }
  return true;
}

void Leader::arrived(int island, int rank, int fragment, std::int64_t round, double now) {
  const auto index = static_cast<std::size_t>(fragment);
  const auto member = members_.find(island);
  if (member == members_.end() || index >= rounds_.size() || round != rounds_[index]) return;
  const auto found = open_[index].from.find(island);
  if (found == open_[index].from.end()) return;
  Given& given = found->second;
  given.ranks.insert(rank);
  if (given.complete || std::ssize(given.ranks) < member->second.ranks) return;
  given.complete = true;
  follow(transfer_s_, now - given.offered_at);
}

void Leader::acknowledged(int island, std::int64_t entries) {
  const auto found = members_.find(island);
  if (found != members_.end())
    found->second.on_disk = std::clamp(entries, found->second.on_disk, entries_);
}

void Leader::drop(int island) {
  for (Open& open : open_) open.from.erase(island);
}

void Leader::leave_out(int island, std::int64_t step, std::vector<Applied> applied) {
  append({.kind = Entry::Kind::kLeave,
          .island = island,
          .run = members_.at(island).run,
          .step = step,
          .applied = std::move(applied)});
  drop(island);
  members_.erase(island);
}

void Leader::left(int island, const Leave& leave) {
  if (members_.contains(island)) leave_out(island, leave.step, leave.applied);
}

void Leader::closed(int island, int rank, double now) {
  const auto found = members_.find(island);
  if (found == members_.end()) return;
  found->second.connected.erase(rank);
  found->second.since = now;
}

int Leader::needed() const {
  return std::clamp(config_.quorum > 0 ? config_.quorum : members() / 2 + 1, 1,
                    std::max(1, members()));
}

// A share of the time until weights blend, less the time that is over and that of the way.
double Leader::grace(const Open& round) const {
  if (config_.grace_s) return *config_.grace_s;
  const double hidden = recipe_->delay * step_s_;
  return std::max(0.0,
                  config_.gamma * (hidden - (*round.quorum_at - round.first_at) - transfer_s_));
}

// Islands that take more than 10 % longer for a step than the median, so that they send at the others' rate.
std::vector<Pace> Leader::paces() const {
  std::vector<double> all;
  for (const auto& [island, member] : members_)
    if (member.step_s > 0) all.push_back(member.step_s);
  std::ranges::sort(all);
  std::vector<Pace> paces;
  for (const auto& [island, member] : members_) {
    if (member.step_s <= 0) continue;
    const double pace = all[(all.size() - 1) / 2] / member.step_s;
    if (pace < 0.9) paces.push_back({island, static_cast<int>(1000 * pace)});
  }
  return paces;
}

void Leader::shows(int island, const State& state) {
  const auto found = members_.find(island);
  if (found != members_.end()) found->second.state = state;
}

std::optional<State> Leader::state_for(const Seek& seek) const {
  const State* best = nullptr;
  for (const auto& [island, member] : members_)
    if (member.connected.contains(0) && member.state && island != seek.island &&
        (best == nullptr || member.state->position > best->position))
      best = &*member.state;
  if (best == nullptr || best->position <= seek.position || best->step <= seek.step ||
      best->position > entries_)
    return std::nullopt;
  const auto means = [&](std::int64_t position) {
    return position > 0 ? mean_bytes_[static_cast<std::size_t>(position) - 1] : 0;
  };
  const bool fresh = seek.step == 0 && seek.position == 0;
  if (!fresh && means(best->position) - means(seek.position) <= best->bytes()) return std::nullopt;
  return *best;
}

void Leader::tick(double now) {
  std::vector<int> absent;
  for (auto& [island, member] : members_) {
    // Time may leap where the leader was suspended: a member that is connected has not gone.
    if (!member.connected.empty()) member.since = now;
    if (now - member.since > config_.absent_s) absent.push_back(island);
  }
  for (const int island : absent) leave_out(island, 0, {});
  for (std::size_t fragment = 0; fragment < open_.size(); ++fragment) {
    Open& open = open_[fragment];
    const int complete = static_cast<int>(
        std::ranges::count_if(open.from, [](const auto& one) { return one.second.complete; }));
    if (complete == 0 || complete < needed()) continue;
    if (!open.quorum_at) open.quorum_at = now;
    if (complete < members() && now < *open.quorum_at + grace(open)) continue;
    Entry entry{.kind = Entry::Kind::kMerge,
                .fragment = static_cast<int>(fragment),
                .round = rounds_[fragment],
                .paces = paces()};
    for (const auto& [island, given] : open.from)
      if (given.complete) entry.from.push_back(given.what);
    ++rounds_[fragment];
    open = {};
    append(std::move(entry));
  }
}

std::int64_t Leader::committed() const {
  if (members_.empty()) return entries_;
  std::vector<std::int64_t> on_disk;
  for (const auto& [island, member] : members_) on_disk.push_back(member.on_disk);
  std::ranges::sort(on_disk, std::greater());
  return on_disk[on_disk.size() / 2];
}

}  // namespace trireme::islands
