#include "trireme/comm/islands/leader_server.h"

#include <fmt/ranges.h>
#include <poll.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/base/hash.h"

namespace trireme::comm {
namespace {

constexpr std::size_t kMostQueued = std::size_t{1} << 20;  // bytes that wait for a stream
constexpr std::size_t kMeans = 8;                          // kept in memory
constexpr std::ptrdiff_t kMostStrangers = 256;             // connections without a hello
constexpr double kPause_s = 5;                             // without a descriptor
constexpr double kPinged_s = 2, kSilent_s = 15, kStranger_s = 10;
constexpr int kTick_ms = 20;

Listener listener_at(const os::Address& address) {
  try {
    return Listener(digits_of(address.host), std::to_string(address.port));
  } catch (const std::runtime_error& error) {
    fail(ErrorKind::kUsage, "--listen {}: {}; choose an address and port of this host",
         os::print(address), error.what());
  }
}

std::string name_of(const islands::Hello& hello) {
  return hello.ranks == 1 ? fmt::format("island {}", hello.island)
                          : fmt::format("island {} rank {}", hello.island, hello.rank);
}

}  // namespace

LeaderServer::LeaderServer(Config config)
    : config_(std::move(config)),
      tls_(config_.token),
      identities_(tls_.expect({kIslandsName})),
      tape_(config_.tape),
      leader_(config_.leader, tape_.entries(), tape_.recipe(), clock_.seconds()),
      listener_(listener_at(config_.address)) {
  find_lacking();
  write_entries();
}

void LeaderServer::run(const std::atomic<int>& stop) {
  while (stop.load() == 0) {
    const bool accepts = !paused_ || paused_->seconds() > kPause_s;
    std::vector<pollfd> waits = {{accepts ? listener_->descriptor() : -1, POLLIN, 0}};
    for (const auto& one : connections_)
      waits.push_back({one->frames->descriptor(), one->frames->events(), 0});
    ::poll(waits.data(), waits.size(), kTick_ms);
    if (accepts) accept();
    for (const auto& one : connections_) move(*one);
    leader_.tick(clock_.seconds());
    write_entries();
    for (const auto& one : connections_) tell(*one);
    std::erase_if(connections_, [](const auto& one) { return one->ended; });
  }
}

void LeaderServer::accept() {
  paused_.reset();
  try {
    while (auto socket = listener_->accept()) {
      const auto stranger = [](const auto& one) { return !one->hello && !one->seek; };
      if (std::ranges::count_if(connections_, stranger) >= kMostStrangers)
        connections_.erase(std::ranges::find_if(connections_, stranger));
      take(std::move(*socket));
    }
  } catch (const std::exception& error) {
    config_.on_note(fmt::format("a connection fails: {}", error.what()));
    paused_.emplace();
  }
}

void LeaderServer::take(os::Descriptor socket) {
  try {
    connections_.push_back(
        std::make_unique<Connection>(Connection{.frames = std::make_unique<Frames>(make_tls_server(
                                                    tls_, std::move(socket), identities_))}));
  } catch (const std::runtime_error&) {
    // It has ended already.
  }
}

void LeaderServer::close(Connection& connection, const std::string& why) {
  connection.ended = true;
  if (!connection.hello) return;
  const islands::Hello& hello = *connection.hello;
  leader_.closed(hello.island, hello.rank, clock_.seconds());
  config_.on_note(fmt::format("{}: {}", name_of(hello), why));
  connection.hello.reset();
}

void LeaderServer::refuse(Connection& connection, const std::string& why) {
  connection.hello.reset();
  connection.refused = true;
  connection.frames->send(islands::print(islands::Refusal{why}));
}

void LeaderServer::forget(int island, const std::string& run) {
  for (const auto& one : connections_)
    if (one->hello && one->hello->island == island && one->hello->run == run) refuse(*one, "");
  std::erase_if(arriving_, [&](const auto& one) {
    return std::get<0>(one.first) == island && std::get<1>(one.first) == run;
  });
  std::erase_if(gathered_, [&](const auto& one) {
    return one.first.second == island && one.second.run == run;
  });
}

void LeaderServer::move(Connection& connection) {
  try {
    if (connection.frames->move([&](std::string_view frame) { take(connection, frame); }))
      connection.heard = Stopwatch();
    if (connection.heard.seconds() >
        (connection.hello || connection.seek ? kSilent_s : kStranger_s))
      throw std::runtime_error("silent");
  } catch (const std::exception& error) {
    close(connection, error.what());
  }
}

void LeaderServer::take(Connection& connection, std::string_view frame) {
  if (frame.empty() || connection.refused || connection.ended) return;
  if (frame[0] == islands::kPieceMark) return take_piece(connection, frame);
  const islands::Message message = islands::parse_message(std::string(frame));
  if (const auto* hello = std::get_if<islands::Hello>(&message)) return take(connection, *hello);
  if (connection.seek || std::holds_alternative<islands::Seek>(message) ||
      std::holds_alternative<islands::State>(message))
    return take_of_state(connection, message);
  if (!connection.hello) throw std::runtime_error("a message before its hello");
  const int island = connection.hello->island;
  if (const auto* offer = std::get_if<islands::Offer>(&message)) {
    take(connection, *offer);
  } else if (const auto* have = std::get_if<islands::Have>(&message)) {
    if (connection.hello->rank == 0) leader_.acknowledged(island, have->entries);
  } else if (const auto* want = std::get_if<islands::Want>(&message)) {
    send_mean(connection, *want);
  } else if (const auto* leave = std::get_if<islands::Leave>(&message)) {
    if (connection.hello->rank != 0) return;
    const std::string run = connection.hello->run;
    leader_.left(island, *leave);
    forget(island, run);
  }
}

void LeaderServer::take(Connection& connection, const islands::Hello& hello) {
  if (connection.hello) throw std::runtime_error("a second hello");
  // A rank whose connection was cut may come back before the cut is seen here.
  for (const auto& other : connections_)
    if (other.get() != &connection && other->hello && other->hello->island == hello.island &&
        other->hello->rank == hello.rank && other->hello->run == hello.run)
      close(*other, "connects again");
  const islands::LinesHere lines{.position = line_before(hello.position),
                                 .copied = line_before(hello.copied)};
  if (const auto why = leader_.hello(hello, clock_.seconds(), lines)) {
    config_.on_note(*why);
    return refuse(connection, *why);
  }
  connection.hello = hello;
  connection.copied = leader_.copied(hello, lines);
  connection.cursor = hello.position;
  // The copy of the tape may lack entries that the weights hold.
  if (hello.rank == 0) connection.cursor = std::min(hello.position, connection.copied);
  config_.on_note(fmt::format("{} connects after step {}", name_of(hello), hello.step));
}

void LeaderServer::take(Connection& connection, const islands::Offer& offer) {
  const islands::Hello& hello = *connection.hello;
  const double now = clock_.seconds();
  if (offer.fragment >= hello.recipe.fragments) throw std::runtime_error("it offers no fragment");
  const auto expected = islands::total(
      islands::places(hello.recipe, hello.parts, offer.fragment, islands::Way::kDifference));
  if (offer.bytes != expected)
    throw std::runtime_error(
        fmt::format("it offers {} bytes; its parts have {}", offer.bytes, expected));
  if (!lacks(hello, offer) && !leader_.offered(hello.island, hello.rank, offer, now)) return;
  const std::uint64_t key = islands::offer_key(offer.fragment, offer.round);
  const Key whose{hello.island, hello.run, hello.rank, key};
  const auto known = arriving_.find(whose);
  if (known == arriving_.end() || known->second.offer.digest != offer.digest)
    arriving_.insert_or_assign(
        whose, Arrival{.offer = offer, .bytes = islands::Arriving(offer.bytes, offer.digest)});
  const Arrival& arrival = arriving_.at(whose);
  if (arrival.bytes.complete()) return gather(hello, arrival);
  connection.frames->send(
      islands::print(islands::Want{.key = key, .from = arrival.bytes.pieces()}));
}

void LeaderServer::take_piece(Connection& connection, std::string_view frame) {
  if (!connection.hello) throw std::runtime_error("a message before its hello");
  const islands::Hello& hello = *connection.hello;
  const auto key = islands::key_of(frame);
  if (!key) throw std::runtime_error("a chunk is too short");
  if ((*key & islands::kStateKey) != 0) {
    if (const auto piece = islands::piece_from(frame)) relay_piece(*piece, frame);
    return;
  }
  const auto found = arriving_.find(Key{hello.island, hello.run, hello.rank, *key});
  if (found == arriving_.end() || found->second.bytes.complete()) return;
  islands::Arriving& bytes = found->second.bytes;
  if (!bytes.take(frame) || (bytes.complete() && !bytes.check()))
    connection.frames->send(islands::print(islands::Want{.key = *key, .from = bytes.pieces()}));
  else if (bytes.complete())
    gather(hello, found->second);
}

// One rank's codes into those of its island.
void LeaderServer::gather(const islands::Hello& hello, const Arrival& arrival) {
  const islands::Offer& offer = arrival.offer;
  const std::optional<std::int64_t> lacking = lacks(hello, offer);
  Gathered& gathered =
      lacking ? lacking_.at({*lacking, hello.island}) : gathered_[{offer.fragment, hello.island}];
  if (gathered.run != hello.run || gathered.round != offer.round)
    gathered = {.run = hello.run,
                .round = offer.round,
                .bytes = std::vector<std::byte>(static_cast<std::size_t>(
                    hello.recipe.bytes(offer.fragment, islands::Way::kDifference)))};
  std::size_t at = 0;
  for (const islands::Place& place :
       islands::places(hello.recipe, hello.parts, offer.fragment, islands::Way::kDifference)) {
    std::memcpy(gathered.bytes.data() + place.offset, arrival.bytes.bytes().data() + at,
                static_cast<std::size_t>(place.bytes));
    at += static_cast<std::size_t>(place.bytes);
  }
  if (lacking) return keep_lacking(*lacking, hello);
  leader_.arrived(hello.island, hello.rank, offer.fragment, offer.round, clock_.seconds());
}

void LeaderServer::write_merge(islands::Entry& entry) {
  std::vector<islands::Codes> codes;
  std::vector<int> islands;
  for (islands::Contribution& one : entry.from) {
    const Gathered& gathered = gathered_.at({entry.fragment, one.island});
    TRIREME_CHECK(gathered.run == one.run && gathered.round == entry.round,
                  "island {} has other codes of round {}", one.island, entry.round);
    one.digest = hash64(std::span<const std::byte>(gathered.bytes));
    tape_.keep_codes(tape_.size(), one.island, gathered.bytes);
    codes.push_back({.island = one.island, .weight = one.weight, .bytes = gathered.bytes});
    islands.push_back(one.island);
  }
  std::vector<std::byte> mean =
      islands::merge(tape_.recipe().value(), entry.fragment, entry.round, codes);
  entry.mean = hash64(std::span<const std::byte>(mean));
  tape_.keep_mean(tape_.size(), mean);
  means_[tape_.size()] = std::move(mean);
  if (means_.size() > kMeans) means_.erase(means_.begin());
  std::erase_if(gathered_, [&](const auto& one) { return one.first.first == entry.fragment; });
  std::erase_if(arriving_, [&](const auto& one) {
    return one.second.offer.fragment == entry.fragment && one.second.offer.round <= entry.round;
  });
  config_.on_note(fmt::format("round {} of fragment {}: merges island{} {}", entry.round,
                              entry.fragment, islands.size() == 1 ? "" : "s",
                              fmt::join(islands, ", ")));
}

void LeaderServer::write_entries() {
  if (leader_.recipe()) tape_.keep(*leader_.recipe());
  for (islands::Entry& entry : leader_.take_entries()) {
    if (entry.kind == islands::Entry::Kind::kMerge) write_merge(entry);
    if (entry.kind == islands::Entry::Kind::kLeave) {
      config_.on_note(fmt::format("island {} leaves", entry.island));
      forget(entry.island, entry.run);
    }
    tape_.append(entry);
  }
}

std::vector<std::byte> LeaderServer::part_of(const islands::Hello& hello, std::int64_t index) {
  if (!means_.contains(index)) {
    if (means_.size() > kMeans) means_.erase(means_.begin());
    means_[index] = tape_.mean(index);
  }
  const std::vector<std::byte>& whole = means_.at(index);
  const islands::Entry& entry = tape_.entries()[static_cast<std::size_t>(index)];
  std::vector<std::byte> part;
  for (const islands::Place& place :
       islands::places(hello.recipe, hello.parts, entry.fragment, islands::Way::kMean))
    part.insert(part.end(), whole.begin() + place.offset,
                whole.begin() + place.offset + place.bytes);
  return part;
}

void LeaderServer::send_mean(Connection& connection, const islands::Want& want) {
  const auto index = static_cast<std::int64_t>(want.key);
  if (index < 0 || index >= tape_.size() ||
      tape_.entries()[static_cast<std::size_t>(index)].kind != islands::Entry::Kind::kMerge)
    throw std::runtime_error("it wants bytes of no merge");
  std::erase_if(connection.sending, [&](const Sending& one) { return one.key == want.key; });
  connection.sending.push_back(
      {.key = want.key,
       .bytes = std::make_shared<const std::vector<std::byte>>(part_of(*connection.hello, index)),
       .next = want.from});
}

// Entries, commits and means that it has not got yet.
void LeaderServer::tell(Connection& connection) {
  if ((!connection.hello && !connection.refused) || connection.ended) return;
  try {
    Frames& frames = *connection.frames;
    if (connection.refused) {
      frames.move([](std::string_view) {});
      connection.ended = frames.unsent() == 0;
      return;
    }
    if (!std::exchange(connection.welcomed, true))
      frames.send(islands::print(islands::Welcome{
          .entries = tape_.size(), .term = leader_.term(), .copied = connection.copied}));
    for (; connection.cursor < tape_.size() && frames.unsent() < kMostQueued; ++connection.cursor) {
      const std::int64_t index = connection.cursor;
      if (index >= connection.hello->position && no_mean_.contains(index)) break;
      islands::News news{.index = index, .line = tape_.line(index)};
      if (tape_.entries()[static_cast<std::size_t>(index)].kind == islands::Entry::Kind::kMerge &&
          index >= connection.hello->position) {
        const std::vector<std::byte> part = part_of(*connection.hello, index);
        news.bytes = std::ssize(part);
        news.digest = hash64(std::span<const std::byte>(part));
      }
      frames.send(islands::print(news));
    }
    if (const std::int64_t committed = leader_.committed();
        committed > connection.committed || connection.pinged.seconds() > kPinged_s) {
      frames.send(islands::print(islands::Have{committed}));
      connection.committed = committed;
      connection.pinged = Stopwatch();
    }
    while (!connection.sending.empty() && frames.unsent() < kMostQueued) {
      Sending& one = connection.sending.front();
      if (one.next < islands::pieces_of(std::ssize(*one.bytes)))
        frames.send(islands::piece_of(one.key, one.next++, *one.bytes));
      else
        connection.sending.pop_front();
    }
    if (frames.move([&](std::string_view frame) { take(connection, frame); }))
      connection.heard = Stopwatch();
  } catch (const std::exception& error) {
    close(connection, error.what());
  }
}

}  // namespace trireme::comm
