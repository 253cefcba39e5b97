#include "trireme/comm/rendezvous/agent_store.h"

#include <fmt/core.h>

#include <stdexcept>
#include <utility>

#include "trireme/base/clock.h"
#include "trireme/base/error.h"
#include "trireme/elastic/secret.h"
#include "trireme/env/wait.h"

namespace trireme::comm {
namespace {

using Bytes = std::vector<std::uint8_t>;

double seconds(std::chrono::milliseconds time) { return static_cast<double>(time.count()) / 1e3; }

std::string text(const Bytes& bytes) { return {bytes.begin(), bytes.end()}; }
Bytes bytes(const std::string& text) { return {text.begin(), text.end()}; }

env::Address parse(const std::string& text) {
  const auto address = env::parse_address(text);
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
      generation_(generation),
      net_(env::make_sockets()),
      session_(elastic::Session::Role::kClient, token_, elastic::random_bytes(32)) {
  connection_ = net_->dial(parse(address_));
  await(seconds(timeout), "its greeting", [&] { return session_.open(); });
}

template <typename Done>
void AgentStore::await(double seconds, const char* what, const Done& done) {
  if (!gone_.empty()) throw std::runtime_error(gone_);
  const Stopwatch watch;
  while (!done()) {
    const double left = seconds - watch.seconds();
    if (left <= 0)
      throw std::runtime_error(
          fmt::format("the agent at {} did not send {} within {} s", address_, what, seconds));
    env::wait({net_->descriptor()}, left);
    for (const env::NetEvent& event : net_->take()) {
      if (event.kind == env::NetEvent::Kind::kClosed) {
        gone_ = fmt::format("the agent at {} is gone{}{}", address_,
                            event.bytes.empty() ? "" : ": ", event.bytes);
        throw std::runtime_error(gone_);
      }
      if (event.kind != env::NetEvent::Kind::kBytes) continue;
      net_->send(connection_, session_.receive(event.bytes, [&](const std::string& frame) {
        const elastic::Message message = elastic::decode(frame);
        if (const auto* reply = std::get_if<elastic::StoreReply>(&message))
          if (reply->id == id_) replies_[reply->id] = *reply;  // others gave up waiting
      }));
    }
  }
}

elastic::StoreReply AgentStore::exchange(elastic::StoreRequest request, double seconds) {
  const std::scoped_lock lock(mutex_);
  request.id = ++id_;
  request.generation = generation_;
  net_->send(connection_, session_.seal(elastic::encode(request)));
  await(seconds, request.key.c_str(), [&] { return replies_.contains(id_); });
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

c10::intrusive_ptr<c10d::Store> AgentStore::clone() {
  return c10::make_intrusive<AgentStore>(address_, token_, generation_, timeout_);
}

}  // namespace trireme::comm
