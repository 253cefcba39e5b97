#include "trireme/launch/elastic/messages.h"

#include <cmath>
#include <limits>

#include "trireme/base/error.h"
#include "trireme/launch/elastic/wire.h"

namespace trireme::elastic {
namespace {

constexpr std::size_t kLongestName = 256, kLongestCause = 4096;

std::uint64_t bits(std::int64_t value) { return static_cast<std::uint64_t>(value); }

int read_int(Reader& from) {
  const auto value = static_cast<std::int64_t>(from.number());
  if (value < std::numeric_limits<int>::min() || value > std::numeric_limits<int>::max())
    fail(ErrorKind::kPeerLost, "a message says {}, needs a number of 32 bits", value);
  return static_cast<int>(value);
}

void write(Writer& to, const Outcome& o) {
  to.number(bits(o.exit_code)).number(bits(o.rank)).text(o.cause.substr(0, kLongestCause));
  to.number(bits(o.signal)).text(o.doing.substr(0, kLongestCause));
}

Outcome read_outcome(Reader& from) {
  Outcome o;
  o.exit_code = read_int(from);
  o.rank = read_int(from);
  o.cause = from.text(kLongestCause);
  o.signal = read_int(from);
  o.doing = from.text(kLongestCause);
  return o;
}

void write(Writer& to, const Report& r) {
  to.number(r.host).number(r.sequence).text(r.name).text(r.run_id).number(r.slots).number(r.place);
  to.number(r.generation).number(static_cast<std::uint64_t>(r.ranks));
  to.number(r.ordered).number(static_cast<std::uint64_t>(r.what));
  write(to, r.outcome);
  to.number(r.leaving);
}

void read(Reader& from, Report& r) {
  r.host = from.number();
  r.sequence = from.number();
  r.name = from.text(kLongestName);
  r.run_id = from.text(kLongestName);
  r.slots = from.number_below(1 << 16);
  r.place = from.number();
  r.generation = from.number();
  r.ranks = static_cast<Report::Ranks>(from.number_below(3));
  r.ordered = from.number();
  r.what = static_cast<Order::What>(from.number_below(4));
  r.outcome = read_outcome(from);
  r.leaving = from.number_below(64);
}

void write(Writer& to, const Order& o) {
  const Assignment& a = o.assignment;
  to.number(o.host).number(o.heard).number(a.generation).number(a.world).number(a.first_rank);
  to.number(a.hosts).number(static_cast<std::uint64_t>(o.what));
  write(to, o.outcome);
}

void read(Reader& from, Order& o) {
  o.host = from.number();
  o.heard = from.number();
  o.assignment.generation = from.number();
  o.assignment.world = from.number_below(std::uint64_t{1} << 31);
  o.assignment.first_rank = from.number_below(std::uint64_t{1} << 31);
  o.assignment.hosts = from.number_below(std::uint64_t{1} << 31);
  o.what = static_cast<Order::What>(from.number_below(4));
  o.outcome = read_outcome(from);
}

void write(Writer& to, const StoreRequest& r) {
  to.number(r.id).number(r.generation).number(static_cast<std::uint64_t>(r.kind)).text(r.key);
  to.text(r.value).text(r.expected).number(bits(r.amount));
}

void read(Reader& from, StoreRequest& r) {
  r.id = from.number();
  r.generation = from.number();
  r.kind = static_cast<StoreRequest::Kind>(from.number_below(8));
  r.key = from.text(kLongestKey);
  r.value = from.text(kLongestValue);
  r.expected = from.text(kLongestValue);
  r.amount = static_cast<std::int64_t>(from.number());
}

void write(Writer& to, const StoreReply& r) {
  to.number(r.id).number(r.served ? 1 : 0).number(bits(r.number)).text(r.value);
}

void read(Reader& from, StoreReply& r) {
  r.id = from.number();
  r.served = from.number_below(2) != 0;
  r.number = static_cast<std::int64_t>(from.number());
  r.value = from.text(kLongestValue);
}

constexpr std::uint64_t kMostRanks = 1 << 20, kMostTracks = watch::kTracks;
constexpr std::uint64_t kLongestSilence = std::uint64_t{1} << 40;  // milliseconds
constexpr std::size_t kLongestDetails = 16 << 10, kLongestLine = 4096;

void write(Writer& to, const std::vector<int>& ranks) {
  to.number(ranks.size());
  for (const int rank : ranks) to.number(bits(rank));
}

// A count says nothing yet about how much is there: memory is taken as entries come.
std::vector<int> read_ranks(Reader& from) {
  std::vector<int> ranks;
  for (std::uint64_t left = from.number_below(kMostRanks); left > 0; --left)
    ranks.push_back(read_int(from));
  return ranks;
}

void write(Writer& to, const watch::State& s) {
  to.number(bits(s.rank)).number(s.moves).number(static_cast<std::uint64_t>(s.phase));
  to.number(bits(s.step)).number(bits(s.line)).number(bits(s.micro_batch));
  to.text(s.line_text.substr(0, kLongestLine)).number(s.waiting ? 1 : 0);
  to.number(static_cast<unsigned char>(s.process));
  to.number(s.operations.size());
  for (const watch::Operation& o : s.operations) {
    to.text(o.track).text(o.what).number(o.sequence).number(o.bytes).number(bits(o.peer));
    write(to, o.members);
  }
  to.number(s.reached.size());
  for (const watch::Reached& r : s.reached) {
    to.text(r.track).number(r.begun);
    write(to, r.members);
  }
}

void read(Reader& from, watch::State& s) {
  s.rank = read_int(from);
  s.moves = from.number();
  s.phase = static_cast<watch::Phase>(from.number_below(watch::kPhases));
  s.step = static_cast<std::int64_t>(from.number());
  s.line = read_int(from);
  s.micro_batch = read_int(from);
  s.line_text = from.text(kLongestLine);
  s.waiting = from.number_below(2) != 0;
  s.process = static_cast<char>(from.number_below(256));
  for (std::uint64_t left = from.number_below(kMostTracks + 1); left > 0; --left) {
    watch::Operation& o = s.operations.emplace_back();
    o.track = from.text(kLongestName);
    o.what = from.text(kLongestName);
    o.sequence = from.number();
    o.bytes = from.number();
    o.peer = read_int(from);
    o.members = read_ranks(from);
  }
  for (std::uint64_t left = from.number_below(kMostTracks + 1); left > 0; --left) {
    watch::Reached& r = s.reached.emplace_back();
    r.track = from.text(kLongestName);
    r.begun = from.number();
    r.members = read_ranks(from);
  }
}

void write(Writer& to, const Silence& s) {
  to.number(s.host).number(s.generation).number(s.ranks.size());
  for (const Silence::Rank& rank : s.ranks) {
    to.number(rank.same ? 1 : 0);
    rank.same ? void(to.number(bits(rank.state.rank))) : write(to, rank.state);
    to.number(bits(std::llround(rank.seconds * 1e3))).number(rank.in_step ? 1 : 0);
    to.text(rank.details.substr(0, kLongestDetails));
  }
}

void read(Reader& from, Silence& s) {
  s.host = from.number();
  s.generation = from.number();
  for (std::uint64_t left = from.number_below(kMostRanks); left > 0; --left) {
    Silence::Rank& rank = s.ranks.emplace_back();
    rank.same = from.number_below(2) != 0;
    if (rank.same)
      rank.state.rank = read_int(from);
    else
      read(from, rank.state);
    rank.seconds = static_cast<double>(from.number_below(kLongestSilence)) * 1e-3;
    rank.in_step = from.number_below(2) != 0;
    rank.details = from.text(kLongestDetails);
  }
}

template <typename T>
Message read_whole(Reader& from) {
  T message;
  read(from, message);
  from.finish();
  return message;
}

}  // namespace

std::string encode(const Message& message) {
  Writer to;
  to.number(message.index());
  std::visit([&](const auto& m) { write(to, m); }, message);
  return to.take();
}

Message decode(std::string_view bytes) {
  Reader from(bytes);
  switch (from.number_below(std::variant_size_v<Message>)) {
    case 0: return read_whole<Report>(from);
    case 1: return read_whole<Order>(from);
    case 2: return read_whole<StoreRequest>(from);
    case 3: return read_whole<StoreReply>(from);
    default: return read_whole<Silence>(from);
  }
}

}  // namespace trireme::elastic
