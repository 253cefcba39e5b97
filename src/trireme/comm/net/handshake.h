// Handshake of a connection: both sides show that they know the run's secret.
#pragma once

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "trireme/base/clock.h"
#include "trireme/comm/net/stream.h"
#include "trireme/launch/elastic/secret.h"

namespace trireme::comm::net {

inline constexpr double kPatience = 10;  // seconds for one connection to prove itself

using Mac = std::array<char, elastic::kMacBytes>;

// Handshake of a connection, in this order: a nonce of the acceptor, a Hello of the dialler, a proof of the acceptor,
// one byte of the dialler.
struct Hello {
  std::int32_t from, to, stream;
  // The dialler's count; 0: the first connection. Else both say how many bytes have arrived, the acceptor first.
  std::int32_t resumption = 0;
  Mac nonce, proof;
};
static_assert(sizeof(Hello) == 16 + 2 * elastic::kMacBytes);

inline Mac to_mac(const std::string& bytes) {
  Mac mac{};
  std::copy_n(bytes.begin(), std::min(bytes.size(), mac.size()), mac.begin());
  return mac;
}

inline std::string_view text(const Mac& mac) { return {mac.data(), mac.size()}; }

// The proofs of one connection of a run.
struct Proofs {
  std::string secret, run;

  Mac make(const char* side, const Mac& acceptors, const Hello& hello) const {
    return to_mac(elastic::hmac(
        secret, fmt::format("{}|{}|{} to {} stream {}.{}|{}{}", side, run, hello.from, hello.to,
                            hello.stream, hello.resumption, text(acceptors), text(hello.nonce))));
  }
  std::string name(int from, int to, int stream) const {  // of a connection under TLS
    return fmt::format("{}|{}|{}|stream {}", run, from, to, stream);
  }
  bool fits(const Mac& shown, const char* side, const Mac& acceptors, const Hello& hello) const {
    return elastic::same_secret(text(shown), text(make(side, acceptors, hello)));
  }
};

// Moves bytes of a fixed amount through a stream, as they can go.
class Transfer {
 public:
  Transfer(bool out, void* data, std::size_t bytes)
      : out_(out), data_(static_cast<std::byte*>(data)), bytes_(bytes) {}
  // Whether all have gone.
  bool advance(Stream& stream) {
    while (done_ < bytes_) {
      const std::size_t n = out_ ? stream.write(data_ + done_, bytes_ - done_)
                                 : stream.read(data_ + done_, bytes_ - done_);
      if (n == 0) return false;
      done_ += n;
    }
    return true;
  }
  bool out() const { return out_; }

 private:
  bool out_;
  std::byte* data_;
  std::size_t bytes_, done_ = 0;
};

inline short events(const Stream& stream, const Transfer& transfer) {
  const bool out = stream.waits_for_space(transfer.out());
  return static_cast<short>(POLLIN | (out ? POLLOUT : 0));
}

// Moves all of it, or throws std::runtime_error at the deadline.
inline void move(Stream& stream, Transfer transfer, const Stopwatch& watch, double deadline) {
  while (!transfer.advance(stream)) {
    if (watch.seconds() > deadline) throw std::runtime_error("no answer");
    pollfd waiting{stream.descriptor(), events(stream, transfer), 0};
    ::poll(&waiting, 1, 100);
  }
}

// A connection that was accepted and has proven nothing yet.
class Pending {
 public:
  explicit Pending(std::unique_ptr<Stream> stream)
      : stream_(std::move(stream)), nonce_(to_mac(elastic::random_bytes(elastic::kMacBytes))) {}

  // Whether it has proven itself; throws std::runtime_error where it cannot any more. `expects`: whether such a
  // connection is awaited; `arrived`: bytes that came over the stream's old connection.
  template <typename Expects, typename Arrived>
  bool advance(const Proofs& proofs, Expects expects, Arrived arrived) {
    if (watch_.seconds() > kPatience) throw std::runtime_error("too late");
    for (; step_ < steps(); ++step_) {
      if (step_ == kProven && !asked_) {
        own_arrived_ = arrived(hello_);
        asked_ = true;
      }
      Transfer& transfer = transfers_[step_];
      if (!transfer.advance(*stream_)) return false;
      if (step_ != 1) continue;
      if (!expects(hello_) || !proofs.fits(hello_.proof, "dialler", nonce_, hello_))
        throw std::runtime_error("not a rank of this run");
      answer_ = proofs.make("acceptor", nonce_, hello_);
    }
    return true;
  }
  pollfd waits_for() const {
    return {stream_->descriptor(), events(*stream_, transfers_[std::min(step_, steps() - 1)]), 0};
  }
  const Hello& hello() const { return hello_; }
  std::uint64_t arrived() const { return arrived_; }  // at the other side
  std::unique_ptr<Stream> take() { return std::move(stream_); }

 private:
  static constexpr std::size_t kProven = 4, kSteps = 6;
  std::size_t steps() const { return hello_.resumption != 0 ? kSteps : kProven; }

  std::unique_ptr<Stream> stream_;
  Mac nonce_, answer_{};
  Hello hello_{};
  char confirmed_ = 0;
  std::uint64_t own_arrived_ = 0, arrived_ = 0;
  bool asked_ = false;
  std::size_t step_ = 0;
  Transfer transfers_[kSteps] = {{true, &nonce_, sizeof nonce_},
                                 {false, &hello_, sizeof hello_},
                                 {true, &answer_, sizeof answer_},
                                 {false, &confirmed_, sizeof confirmed_},
                                 {true, &own_arrived_, sizeof own_arrived_},
                                 {false, &arrived_, sizeof arrived_}};
  Stopwatch watch_;
};

}  // namespace trireme::comm::net
