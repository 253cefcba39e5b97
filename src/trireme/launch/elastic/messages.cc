#include "trireme/launch/elastic/messages.h"

#include <cmath>
#include <limits>
#include <type_traits>

#include "trireme/base/error.h"
#include "trireme/launch/elastic/wire.h"

namespace trireme::elastic {
namespace {

constexpr std::size_t kLongestName = 256, kLongestCause = 4096;
constexpr std::size_t kLongestDetails = 16 << 10, kLongestLine = 4096;
constexpr std::uint64_t kMostRanks = 1 << 20, kMostTracks = watch::kTracks;
constexpr std::uint64_t kLongestSilence = std::uint64_t{1} << 40;  // milliseconds
constexpr std::uint64_t kCounts = std::uint64_t{1} << 31;

// Encoder and Decoder have the same members, so that one list of fields serves both directions.
class Encoder {
 public:
  static constexpr bool kReads = false;

  // Signed numbers keep their sign over 64 bits.
  template <typename T>
  void number(T value) {
    to_.number(static_cast<std::uint64_t>(value));
  }
  // Numbers and enumerations below `limit`.
  template <typename T>
  void below(T value, std::uint64_t) {
    if constexpr (std::is_same_v<T, char>)
      number(static_cast<unsigned char>(value));
    else
      number(value);
  }
  // Text that is refused above `most` bytes.
  void text(const std::string& value, std::size_t most) { to_.text(value); }
  // Text that is cut at `most` bytes.
  void cut_text(const std::string& value, std::size_t most) {
    to_.text(std::string_view(value).substr(0, most));
  }
  template <typename T, typename Each>
  void list(const std::vector<T>& values, std::uint64_t, const Each& each) {
    number(values.size());
    for (const T& value : values) each(value);
  }
  std::string take() { return to_.take(); }

 private:
  Writer to_;
};

class Decoder {
 public:
  static constexpr bool kReads = true;

  explicit Decoder(std::string_view bytes) : from_(bytes) {}
  template <typename T>
  void number(T& value) {
    const auto read = static_cast<std::int64_t>(from_.number());
    if constexpr (sizeof(T) < sizeof(read))
      if (read < std::numeric_limits<T>::min() || read > std::numeric_limits<T>::max())
        fail(ErrorKind::kPeerLost, "a message says {}, needs a number of {} bits", read,
             8 * sizeof(T));
    value = static_cast<T>(read);
  }
  template <typename T>
  void below(T& value, std::uint64_t limit) {
    value = static_cast<T>(from_.number_below(limit));
  }
  void text(std::string& value, std::size_t most) { value = from_.text(most); }
  void cut_text(std::string& value, std::size_t most) { value = from_.text(most); }
  // A count says nothing yet about how much is there: memory is taken as entries come.
  template <typename T, typename Each>
  void list(std::vector<T>& values, std::uint64_t limit, const Each& each) {
    for (std::uint64_t left = from_.number_below(limit); left > 0; --left)
      each(values.emplace_back());
  }
  void finish() const { from_.finish(); }

 private:
  Reader from_;
};

// `T` where it is read, `const T` where it is written.
template <typename Coder, typename T>
using Fields = std::conditional_t<Coder::kReads, T, const T>;

template <typename Coder>
void fields(Coder& c, Fields<Coder, Outcome>& o) {
  c.number(o.exit_code);
  c.number(o.rank);
  c.cut_text(o.cause, kLongestCause);
  c.number(o.signal);
  c.cut_text(o.doing, kLongestCause);
}

template <typename Coder>
void fields(Coder& c, Fields<Coder, Report>& r) {
  c.number(r.host);
  c.number(r.sequence);
  c.text(r.name, kLongestName);
  c.text(r.run_id, kLongestName);
  c.below(r.slots, 1 << 16);
  c.number(r.place);
  c.number(r.generation);
  c.below(r.ranks, 3);
  c.number(r.ordered);
  c.below(r.what, 4);
  fields(c, r.outcome);
  c.below(r.leaving, 64);
}

template <typename Coder>
void fields(Coder& c, Fields<Coder, Order>& o) {
  c.number(o.host);
  c.number(o.heard);
  c.number(o.assignment.generation);
  c.below(o.assignment.world, kCounts);
  c.below(o.assignment.first_rank, kCounts);
  c.below(o.assignment.hosts, kCounts);
  c.below(o.assignment.servers, kCounts);
  c.below(o.what, 4);
  fields(c, o.outcome);
}

template <typename Coder>
void fields(Coder& c, Fields<Coder, StoreRequest>& r) {
  c.number(r.id);
  c.number(r.generation);
  c.below(r.kind, 8);
  c.text(r.key, kLongestKey);
  c.text(r.value, kLongestValue);
  c.text(r.expected, kLongestValue);
  c.number(r.amount);
}

template <typename Coder>
void fields(Coder& c, Fields<Coder, StoreReply>& r) {
  c.number(r.id);
  c.below(r.served, 2);
  c.number(r.number);
  c.text(r.value, kLongestValue);
}

template <typename Coder>
void fields(Coder& c, Fields<Coder, std::vector<int>>& ranks) {
  c.list(ranks, kMostRanks, [&](auto& rank) { c.number(rank); });
}

template <typename Coder>
void fields(Coder& c, Fields<Coder, watch::State>& s) {
  c.number(s.rank);
  c.number(s.moves);
  c.below(s.phase, watch::kPhases);
  c.number(s.step);
  c.number(s.line);
  c.number(s.micro_batch);
  c.cut_text(s.line_text, kLongestLine);
  c.below(s.waiting, 2);
  c.below(s.process, 256);
  c.list(s.operations, kMostTracks + 1, [&](auto& o) {
    c.text(o.track, kLongestName);
    c.text(o.what, kLongestName);
    c.number(o.sequence);
    c.number(o.bytes);
    c.number(o.peer);
    c.number(o.chunks);
    c.number(o.awaited);
    fields(c, o.members);
  });
  c.list(s.reached, kMostTracks + 1, [&](auto& r) {
    c.text(r.track, kLongestName);
    c.number(r.begun);
    fields(c, r.members);
  });
}

template <typename Coder>
void fields(Coder& c, Fields<Coder, Silence>& s) {
  c.number(s.host);
  c.number(s.generation);
  c.list(s.ranks, kMostRanks, [&](auto& rank) {
    c.below(rank.same, 2);
    if (rank.same)
      c.number(rank.state.rank);
    else
      fields(c, rank.state);
    auto milliseconds = static_cast<std::uint64_t>(std::llround(rank.seconds * 1e3));
    c.below(milliseconds, kLongestSilence);
    if constexpr (Coder::kReads) rank.seconds = static_cast<double>(milliseconds) * 1e-3;
    c.below(rank.in_step, 2);
    c.cut_text(rank.details, kLongestDetails);
  });
}

template <typename T>
Message decoded(Decoder& from) {
  T message;
  fields(from, message);
  from.finish();
  return message;
}

}  // namespace

std::string encode(const Message& message) {
  Encoder to;
  to.number(message.index());
  std::visit([&](const auto& m) { fields(to, m); }, message);
  return to.take();
}

Message decode(std::string_view bytes) {
  Decoder from(bytes);
  std::uint64_t kind = 0;
  from.below(kind, std::variant_size_v<Message>);
  switch (kind) {
    case 0: return decoded<Report>(from);
    case 1: return decoded<Order>(from);
    case 2: return decoded<StoreRequest>(from);
    case 3: return decoded<StoreReply>(from);
    default: return decoded<Silence>(from);
  }
}

}  // namespace trireme::elastic
