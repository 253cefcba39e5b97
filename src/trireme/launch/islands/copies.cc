#include "trireme/launch/islands/copies.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/base/hash.h"

namespace trireme::islands {
namespace {

std::set<int> members_of(const Tape& tape) {
  std::set<int> members;
  for (const Entry& entry : tape.entries()) {
    if (entry.kind == Entry::Kind::kJoin) members.insert(entry.island);
    if (entry.kind == Entry::Kind::kLeave) members.erase(entry.island);
  }
  return members;
}

std::vector<Tape> open_copies(const std::vector<Path>& copies) {
  std::vector<Tape> tapes;
  for (const Path& copy : copies) {
    if (!std::filesystem::exists(copy / Tape::kName))
      fail(ErrorKind::kUsage,
           "--from {}: has no {}; give the directories RUNDIR/islands of islands", copy.string(),
           Tape::kName);
    tapes.push_back(Tape::open(copy));
    if (!tapes.back().owner() || !tapes.back().recipe())
      fail(ErrorKind::kUsage, "--from {}: is no copy of an island, such as RUNDIR/islands",
           copy.string());
  }
  return tapes;
}

// Bytes with that digest from any of the copies.
std::optional<std::vector<std::byte>> find_bytes(const std::vector<Tape>& tapes, std::int64_t index,
                                                 const std::string& of, std::uint64_t digest) {
  for (const Tape& tape : tapes) {
    const Path path = Tape::blob(tape.directory(), index, of);
    if (!std::filesystem::exists(path)) continue;
    const MappedFile file(path, Symlinks::kRefuse);
    if (hash64(file.bytes()) == digest)
      return std::vector<std::byte>(file.bytes().begin(), file.bytes().end());
  }
  return std::nullopt;
}

// Entries of the tape that may have been applied: on a majority of disks, if all that were not given have them.
std::int64_t perhaps_committed(const std::vector<Tape>& tapes, const Tape& best,
                               const std::set<int>& members, std::size_t given) {
  for (std::int64_t entries = best.size(); entries > 0; --entries) {
    std::set<int> have;
    for (const Tape& tape : tapes)
      if (members.contains(*tape.owner()) && tape.size() >= entries &&
          tape.line(entries - 1) == best.line(entries - 1))
        have.insert(*tape.owner());
    if (have.size() + members.size() - given > members.size() / 2) return entries;
  }
  return 0;
}

// Whether all of its bytes are there.
bool restore_merge(const std::vector<Tape>& tapes, const Tape& to, std::int64_t index,
                   const Entry& entry, Restored& restored) {
  std::vector<std::vector<std::byte>> bytes;
  std::vector<Codes> codes;
  for (const Contribution& one : entry.from) {
    auto found = find_bytes(tapes, index, Tape::codes_name(one.island), one.digest);
    if (!found) {
      ++restored.no_codes[one.island];
      continue;
    }
    to.keep_codes(index, one.island, *found);
    bytes.push_back(std::move(*found));
    codes.push_back({.island = one.island, .weight = one.weight});
  }
  for (std::size_t i = 0; i < codes.size(); ++i) codes[i].bytes = bytes[i];
  auto mean = find_bytes(tapes, index, Tape::mean_name(), entry.mean);
  if (!mean && codes.size() == entry.from.size())
    mean = merge(to.recipe().value(), entry.fragment, entry.round, codes);
  if (mean && hash64(std::span<const std::byte>(*mean)) == entry.mean)
    to.keep_mean(index, *mean);
  else
    ++restored.no_means;
  return mean && codes.size() == entry.from.size();
}

}  // namespace

Restored restore(const std::vector<Path>& copies, const Path& directory) {
  std::error_code none;
  if (std::filesystem::file_size(directory / Tape::kName, none) > 0 && !none)
    fail(ErrorKind::kUsage,
         "{} has a tape already. Give a new --dir with --from, or start the leader without --from",
         directory.string());
  const std::vector<Tape> tapes = open_copies(copies);
  const auto rank = [](const Tape& tape) {
    return std::pair(tape.size() == 0 ? 0 : tape.entries().back().term, tape.size());
  };
  const Tape& best = *std::ranges::max_element(tapes, {}, rank);
  const std::set<int> members = members_of(best);
  std::set<int> given;
  for (const Tape& tape : tapes)
    if (members.contains(*tape.owner())) given.insert(*tape.owner());
  if (2 * std::ssize(given) <= std::ssize(members))
    fail(ErrorKind::kUsage,
         "--from has the copies of {} of {} islands ({}); a merge may be missing. Give those of {} "
         "or more",
         given.size(), members.size(), fmt::join(members, ", "), members.size() / 2 + 1);
  Restored restored{.entries = best.size(),
                    .from = best.directory(),
                    .islands = {given.begin(), given.end()},
                    .members = static_cast<int>(members.size())};
  Tape to(directory);
  to.keep(best.recipe().value());
  // Lines come last: a tape that is there has its bytes.
  const std::int64_t committed = perhaps_committed(tapes, best, members, given.size());
  for (std::int64_t index = 0; index < restored.entries; ++index) {
    const Entry& entry = best.entries()[static_cast<std::size_t>(index)];
    const Restored before = restored;
    if (entry.kind != Entry::Kind::kMerge || restore_merge(tapes, to, index, entry, restored) ||
        index < committed)
      continue;
    // No island has applied it, so it is merged again: islands still have their codes.
    restored = before;
    restored.entries = index;
  }
  std::string lines;
  for (std::int64_t index = 0; index < restored.entries; ++index) lines += best.line(index) + "\n";
  replace_file(directory / Tape::kName, lines);
  return restored;
}

}  // namespace trireme::islands
