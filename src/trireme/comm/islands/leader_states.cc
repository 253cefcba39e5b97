// LeaderServer: states of islands that it passes on, and codes that a tape from copies lacks.
#include <algorithm>
#include <stdexcept>

#include "trireme/base/hash.h"
#include "trireme/comm/islands/leader_server.h"

namespace trireme::comm {

std::uint64_t LeaderServer::line_before(std::int64_t position) const {
  return position > 0 && position <= tape_.size() ? tape_.digest(position - 1) : 0;
}

// Of a first rank, which shows what it can hand over, and of a process that takes a state.
void LeaderServer::take_of_state(Connection& connection, const islands::Message& message) {
  if (const auto* seek = std::get_if<islands::Seek>(&message)) {
    if (connection.hello) throw std::runtime_error("an island that trains seeks a state");
    connection.seek = *seek;
    const islands::State state = leader_.state_for(*seek).value_or(islands::State());
    connection.state = state.key;
    connection.fetched.clear();
    connection.frames->send(islands::print(state));
  } else if (const auto* state = std::get_if<islands::State>(&message)) {
    connection.shown.erase(state->key);  // without files it is gone
    if (!connection.hello || connection.hello->rank != 0 || state->files.empty() ||
        state->position < 1 || state->line != line_before(state->position))
      return;
    connection.shown.insert(state->key);
    leader_.shows(connection.hello->island, *state);
  } else if (const auto* fetch = std::get_if<islands::Fetch>(&message)) {
    relay(connection, *fetch);
  }
}

void LeaderServer::relay(Connection& connection, const islands::Fetch& fetch) {
  if (!connection.seek || fetch.key != connection.state) return;
  const auto has = [&](const auto& one) {
    return one->hello && !one->ended && one->shown.contains(fetch.key);
  };
  const auto from = std::ranges::find_if(connections_, has);
  // The island is gone: another state is sought.
  if (from == connections_.end()) return take_of_state(connection, *connection.seek);
  for (std::int64_t i = 0; i < fetch.count; ++i) connection.fetched.insert(fetch.from + i);
  (*from)->frames->send(islands::print(fetch));
}

void LeaderServer::relay_piece(const islands::Piece& piece, std::string_view frame) {
  for (const auto& one : connections_)
    if (one->seek && !one->ended && one->state == piece.key && one->fetched.erase(piece.number) > 0)
      one->frames->send(frame);
}

// Merges whose codes no copy had: their islands may not know that they were merged, and offer them again.
void LeaderServer::find_lacking() {
  using islands::Tape;
  for (std::int64_t index = 0; index < tape_.size(); ++index) {
    const islands::Entry& entry = tape_.entries()[static_cast<std::size_t>(index)];
    const auto absent = [&](const std::string& of) {
      return entry.kind == islands::Entry::Kind::kMerge &&
             !std::filesystem::exists(Tape::blob(tape_.directory(), index, of));
    };
    if (absent(Tape::mean_name())) no_mean_.insert(index);
    for (const islands::Contribution& one : entry.from)
      if (absent(Tape::codes_name(one.island))) lacking_[{index, one.island}] = {};
  }
}

std::optional<std::int64_t> LeaderServer::lacks(const islands::Hello& hello,
                                                const islands::Offer& offer) const {
  for (const auto& [which, gathered] : lacking_) {
    const islands::Entry& entry = tape_.entries()[static_cast<std::size_t>(which.first)];
    const auto own = std::ranges::find(entry.from, hello.run, &islands::Contribution::run);
    if (which.second == hello.island && own != entry.from.end() &&
        entry.fragment == offer.fragment && entry.round == offer.round)
      return which.first;
  }
  return std::nullopt;
}

// Once the parts of all ranks are here, they have the digest on the tape.
void LeaderServer::keep_lacking(std::int64_t index, const islands::Hello& hello) {
  const islands::Entry& entry = tape_.entries()[static_cast<std::size_t>(index)];
  const auto own = std::ranges::find(entry.from, hello.island, &islands::Contribution::island);
  const std::span<const std::byte> bytes = lacking_.at({index, hello.island}).bytes;
  if (hash64(bytes) != own->digest) return;
  tape_.keep_codes(index, hello.island, bytes);
  lacking_.erase({index, hello.island});
  const auto here = [&](const auto& one) { return one.first.first == index; };
  if (!no_mean_.contains(index) || std::ranges::any_of(lacking_, here)) return;
  const std::vector<std::byte> mean = islands::merge_again(tape_, index);
  if (hash64(std::span<const std::byte>(mean)) != entry.mean) return;
  tape_.keep_mean(index, mean);
  no_mean_.erase(index);
}

}  // namespace trireme::comm
