#include "trireme/comm/rendezvous/agent_store.h"

#include <fmt/core.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "trireme/base/clock.h"
#include "trireme/base/error.h"
#include "trireme/base/os/wait.h"
#include "trireme/launch/elastic/backoff.h"

namespace trireme::comm {
namespace {

using Bytes = std::vector<std::uint8_t>;

double seconds(std::chrono::milliseconds time) { return static_cast<double>(time.count()) / 1e3; }

std::string text(const Bytes& bytes) { return {bytes.begin(), bytes.end()}; }
Bytes bytes(const std::string& text) { return {text.begin(), text.end()}; }

os::Address parse(const std::string& text) {
  const auto address = os::parse_address(text);
  if (!address)
    fail(ErrorKind::kUsage, "the agent's store is at '{}'; needs HOST:PORT or unix:NAME", text);
  return *address;
}

}  // namespace

AgentStore::AgentStore(std::string address, std::string token, std::uint64_t generation,
                       std::chrono::milliseconds timeout)
    : c10d::Store(timeout),
      address_(std::move(address)),
      token_(std::move(token)),
      sessions_(token_),
      generation_(generation),
      net_(os::make_sockets()) {
  connect(seconds(timeout));
}

void AgentStore::connect(double seconds) {
  constexpr double kFirstPause = 0.01, kLongestPause = 0.5;
  const os::Address agent = parse(address_);
  local_ = agent.local;
  const Stopwatch watch;
  elastic::Backoff pause(kFirstPause, kLongestPause);
  std::string why = "it did not answer";
  for (int attempts = 1;; ++attempts) {
    session_.emplace(sessions_.connect(elastic::Caller::kRank));
    gone_.reset();
    connection_ = net_->dial(agent);
    net_->send(connection_, session_->greeting());
    handle_until(seconds - watch.seconds(), [&] { return session_->open(); });
    if (session_->open()) return;
    if (gone_ && gone_->no_listener) throw std::runtime_error(why_gone());
    if (gone_)
      why = gone_->bytes.empty() ? "it closed the connection before the token was shown"
                                 : gone_->bytes;
    const double left = seconds - watch.seconds();
    if (left <= 0)
      throw std::runtime_error(fmt::format(
          "the agent at {} did not take this rank within {} s ({}): {}", address_, seconds,
          attempts == 1 ? "one attempt" : fmt::format("{} attempts", attempts), why));
    net_->close(connection_);
    os::wait({}, std::min(left, pause.next()));
  }
}

std::string AgentStore::why_gone() const {
  return fmt::format("the agent at {} is gone{}{}", address_, gone_->bytes.empty() ? "" : ": ",
                     gone_->bytes);
}

void AgentStore::handle(const os::NetEvent& event) {
  if (event.connection != connection_) return;
  if (event.kind == os::NetEvent::Kind::kClosed) gone_ = event;
  if (event.kind != os::NetEvent::Kind::kBytes) return;
  net_->send(connection_, session_->receive(event.bytes, [&](const std::string& frame) {
    const elastic::Message message = elastic::decode(frame);
    if (const auto* reply = std::get_if<elastic::StoreReply>(&message))
      if (reply->id == id_) replies_[reply->id] = *reply;  // others gave up waiting
  }));
}

template <typename Done>
void AgentStore::handle_until(double seconds, const Done& done) {
  const Stopwatch watch;
  while (!gone_ && !done()) {
    const double left = seconds - watch.seconds();
    if (left <= 0) return;
    os::wait({net_->descriptor()}, left);
    for (const os::NetEvent& event : net_->take()) handle(event);
  }
}

elastic::StoreReply AgentStore::exchange(elastic::StoreRequest request, double seconds) {
  const std::scoped_lock lock(mutex_);
  if (gone_) throw std::runtime_error(why_gone());
  request.id = ++id_;
  request.generation = generation_;
  net_->send(connection_, session_->seal(elastic::encode(request)));
  handle_until(seconds, [&] { return replies_.contains(id_); });
  if (!replies_.contains(id_)) {
    if (gone_) throw std::runtime_error(why_gone());
    throw AgentSilent(fmt::format(
        "the agent at {} did not answer about '{}' within {} s; is its process stopped?", address_,
        request.key, seconds));
  }
  elastic::StoreReply reply = std::move(replies_.extract(id_).mapped());
  if (!reply.served)
    throw std::runtime_error(fmt::format("generation {} of this run's ranks is over", generation_));
  return reply;
}

elastic::StoreReply AgentStore::ask(Kind kind, const std::string& key, const Bytes& value,
                                    const Bytes& expected, std::int64_t amount) {
  return exchange({.kind = kind,
                   .key = key,
                   .value = text(value),
                   .expected = text(expected),
                   .amount = amount},
                  seconds(timeout_));
}

void AgentStore::set(const std::string& key, const Bytes& value) { ask(Kind::kSet, key, value); }

Bytes AgentStore::compareSet(const std::string& key, const Bytes& expected, const Bytes& value) {
  return bytes(ask(Kind::kCompareSet, key, value, expected).value);
}

Bytes AgentStore::get(const std::string& key) { return bytes(ask(Kind::kGet, key).value); }

std::int64_t AgentStore::add(const std::string& key, std::int64_t amount) {
  return ask(Kind::kAdd, key, {}, {}, amount).number;
}

bool AgentStore::deleteKey(const std::string& key) { return ask(Kind::kDelete, key).number != 0; }

bool AgentStore::check(const std::vector<std::string>& keys) {
  for (const std::string& key : keys)
    if (ask(Kind::kCheck, key).number == 0) return false;
  return true;
}

std::int64_t AgentStore::getNumKeys() { return ask(Kind::kCount, "").number; }

void AgentStore::wait(const std::vector<std::string>& keys,
                      const std::chrono::milliseconds& timeout) {
  const Stopwatch watch;
  for (const std::string& key : keys)
    exchange({.kind = Kind::kWait, .key = key}, seconds(timeout) - watch.seconds());
}

void AgentStore::check_generation(double seconds) {
  exchange({.kind = Kind::kCheck, .key = "joined"}, seconds);
}

c10::intrusive_ptr<c10d::Store> AgentStore::clone() {
  return c10::make_intrusive<AgentStore>(address_, token_, generation_, timeout_);
}

}  // namespace trireme::comm
