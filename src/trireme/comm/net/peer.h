// State that the link keeps for another rank: its streams, and the messages in transit on them.
#pragma once

#include <atomic>
#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "trireme/base/clock.h"
#include "trireme/comm/net/message.h"
#include "trireme/comm/net/resumable.h"
#include "trireme/comm/net/stream.h"

namespace trireme::comm::net {

// Bytes on their way out; `left` has the chunk when they are all taken.
struct Outbound {
  Piece piece{};
  const std::byte* data = nullptr;
  Progress* left = nullptr;
  std::size_t sent = 0;  // header included
  bool offered = false;  // to the stream, which may hold some of it however little was sent
};
// Bytes on their way in: a header, then what follows it.
struct Inbound {
  Piece piece{};
  Control control{};
  Small small{};
  std::size_t got = 0;
  std::byte* into = nullptr;  // null: they have no reader any more
};
struct Peer;

struct Channel {
  Peer* peer = nullptr;
  std::unique_ptr<Stream> stream;
  ResumableStream* resumable = nullptr;  // the same, where it outlives its connection
  bool control = false, ended = false, awaits_room = false;
  bool rests = false;          // has space, but other ranks' turn comes first
  bool watches_space = false;  // of the socket
  bool is_cut = false;         // until it has a new connection
  Inbound in;
  std::optional<Outbound> out;
};
struct Peer {
  int rank = 0;
  std::vector<Channel> channels;  // that of control messages first
  std::map<MessageId, Departure*> departures;
  std::map<MessageId, Arrival*> arrivals;
  std::map<MessageId, std::pair<Control, Small>> early;  // announced, not expected yet
  std::string controls;  // bytes to be sent, of which so many have gone already
  std::size_t gone = 0;
  std::uint64_t posted = 0;               // bytes of control messages, ever
  std::atomic<std::uint64_t> written{0};  // and of those that the stream has taken
  std::deque<Outbound> pieces;
  std::string why;  // it is broken
  std::atomic<bool> broken{false};
  std::optional<Stopwatch> ending;  // since the first of its streams ended
};

}  // namespace trireme::comm::net
