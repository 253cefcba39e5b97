#include "trireme/comm/rendezvous/rendezvous.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <map>
#include <sstream>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <utility>

#include "trireme/base/clock.h"
#include "trireme/base/error.h"
#include "trireme/comm/rendezvous/agent_store.h"
#include "trireme/comm/rendezvous/sockets.h"
#include "trireme/comm/transport.h"

namespace trireme::comm {
namespace {

// LibTorch 2.x may be built without libuv and then refuses its own default.
template <typename Options>
void without_libuv(Options& options) {
  if constexpr (requires { options.useLibUV; }) options.useLibUV = false;
}

constexpr double kRollCall = 1.0;  // seconds that a process has to say that it runs

}  // namespace

std::string gist(const std::exception& error) {
  // what() of c10's errors looks up the symbols of a stack trace first: seconds on 2.x.
  const auto* ours = dynamic_cast<const c10::Error*>(&error);
  std::string text = ours ? ours->what_without_backtrace() : error.what();
  text = text.substr(0, text.find('\n'));
  if (text.starts_with('[') && text.find("] ") != std::string::npos)
    text = text.substr(text.find("] ") + 2);
  return text;
}

Rendezvous::Rendezvous(const RendezvousConfig& config) : config_(config) {
  if (config.size < 1 || config.rank < 0 || config.rank >= config.size)
    fail(ErrorKind::kUsage, "rank {} of {} ranks: needs 0 <= rank < ranks", config.rank,
         config.size);
  if (config.agent.empty() && (config.port < 1 || config.port > 65535))
    fail(ErrorKind::kUsage, "port {}: needs 1 to 65535", config.port);
  const auto stage = [&](const char* name) {
    if (config.on_stage) config.on_stage(name);
  };
  stage("store");
  config_.agent.empty() ? open_stores() : join_agent();
  stage("ranks");
  gather_ranks();
  stage("links");
}

Rendezvous::~Rendezvous() { leave(); }

void Rendezvous::leave() {
  if (std::exchange(left_, true)) return;
  const bool aborted = cause().has_value(), watched = herald_ != nullptr;
  herald_.reset();
  if (!config_.host_store) return;
  const double patience = aborted ? 1.0 : 30.0;
  const Stopwatch watch;
  try {
    // A herald counts its rank; one that failed before it watched counts itself.
    if (!watched) store_->add(Herald::kLeftKey, 1);
    if (config_.rank != 0) return;
    // Running ranks learn the cause from the store, so it stays as long as any may read it.
    while (watch.seconds() < patience &&
           store_->add(Herald::kLeftKey, 0) < config_.size - config_.servers)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
  } catch (const std::exception&) {
    // Its own store failed: reports are no longer possible.
  }
}

void Rendezvous::open_stores() {
  const bool server = config_.host_store && config_.rank == 0;
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(config_.port);
  options.isServer = server;
  options.waitWorkers = false;
  options.timeout = milliseconds(config_.connect_timeout_s);
  without_libuv(options);
  const auto open = [&] {
    return c10::make_intrusive<c10d::PrefixStore>(
        config_.run_id, c10::make_intrusive<c10d::TCPStore>(config_.host, options));
  };
  std::string why = server ? why_not_listen(config_.port)
                           : await_listener(config_.host, config_.port, config_.connect_timeout_s);
  try {
    if (why.empty()) store_ = open();
    options.isServer = false;
    if (why.empty()) herald_store_ = open();
  } catch (const std::exception& e) {
    why = gist(e);
  }
  if (why.empty()) return;
  if (server)
    fail(ErrorKind::kUsage,
         "rank 0 cannot host the key-value store at {}:{}: {}; choose a free port of this host",
         config_.host, config_.port, why);
  fail(ErrorKind::kPeerLost,
       "rank {}: no key-value store at {}:{} within {} s: {}; is its host (rank 0) running?",
       config_.rank, config_.host, config_.port, config_.connect_timeout_s, why);
}

void Rendezvous::join_agent() {
  config_.host_store = false;
  const auto open = [&] {
    return c10::make_intrusive<AgentStore>(config_.agent, config_.agent_token, config_.generation,
                                           milliseconds(config_.connect_timeout_s));
  };
  try {
    store_ = agent_ = open();
    herald_store_ = open();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& e) {
    fail(ErrorKind::kPeerLost, "rank {}: {}", config_.rank, e.what());
  }
}

void Rendezvous::gather_ranks() {
  const auto key = [](int rank) { return "joined/" + std::to_string(rank); };
  const Stopwatch watch;
  try {
    store_->set(key(config_.rank), std::vector<std::uint8_t>{1});
    store_->add("joined", 1);
    while (store_->add("joined", 0) < config_.size) {
      if (watch.seconds() > config_.connect_timeout_s) {
        std::string missing;
        for (int rank = 0; rank < config_.size; ++rank)
          if (!store_->check({key(rank)})) missing += fmt::format(" {}", rank);
        fail(ErrorKind::kPeerLost,
             "rank {}: of {} ranks these did not come to {}:{} within {} s:{}", config_.rank,
             config_.size, config_.host, config_.port, config_.connect_timeout_s, missing);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  } catch (const Error&) {
    throw;
  } catch (const std::exception& e) {
    fail(ErrorKind::kPeerLost,
         "rank {}: the key-value store at {}:{} went away while ranks came together: {}",
         config_.rank, config_.host, config_.port, gist(e));
  }
}

std::string Rendezvous::text_of(int by, const std::string& key, const std::string& text) {
  const std::string place = fmt::format("{}/{}", key, by);
  try {
    if (config_.rank == by) store_->set(place, std::vector<std::uint8_t>(text.begin(), text.end()));
    const auto bytes = store_->get(place);
    return {bytes.begin(), bytes.end()};
  } catch (const std::exception& e) {
    fail(ErrorKind::kPeerLost, "rank {}: rank {} did not send its '{}': {}", config_.rank, by, key,
         gist(e));
  }
}

void Rendezvous::check_current() {
  constexpr double kPatience = 2;
  if (!agent_) return;
  try {
    agent_->check_generation(agent_->local() ? kPatience : config_.connect_timeout_s);
  } catch (const AgentSilent& e) {
    if (!agent_->local()) fail(ErrorKind::kPeerLost, "rank {}: {}", config_.rank, e.what());
  } catch (const std::exception& e) {
    fail(ErrorKind::kPeerLost, "rank {}: {}", config_.rank, gist(e));
  }
}

std::vector<int> Rendezvous::ranks_by_text(const std::string& key, const std::string& mine) {
  text_of(config_.rank, key, mine);
  // One rank reads what all say, so that the store is not asked the square of their number.
  std::string list;
  std::map<std::string, int> firsts;
  for (int rank = 0; config_.rank == 0 && rank < config_.size; ++rank)
    list += fmt::format("{} ", firsts.try_emplace(text_of(rank, key, mine), rank).first->second);
  std::istringstream words(text_of(0, key + "/firsts", list));
  return {std::istream_iterator<int>(words), {}};
}

bool Rendezvous::all_agree(const std::string& key, bool mine) {
  constexpr std::int64_t kNo = std::int64_t{1} << 32;  // added to the number of answers
  const Stopwatch watch;
  try {
    std::int64_t answers = store_->add(key, mine ? 1 : kNo + 1);
    while (answers % kNo < config_.size) {
      if (watch.seconds() > config_.connect_timeout_s)
        fail(ErrorKind::kPeerLost, "rank {}: of {} ranks {} agreed on '{}' within {} s",
             config_.rank, config_.size, answers % kNo, key, config_.connect_timeout_s);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      answers = store_->add(key, 0);
    }
    return answers < kNo;
  } catch (const Error&) {
    throw;
  } catch (const std::exception& e) {
    fail(ErrorKind::kPeerLost, "rank {}: the key-value store went away while ranks met: {}",
         config_.rank, gist(e));
  }
}

void Rendezvous::watch(std::function<void()> on_cause) {
  herald_ =
      std::make_unique<Herald>(herald_store_, config_.rank, config_.size, std::move(on_cause));
}

int Rendezvous::culprit(int awaited) {
  const auto silent = herald_->roll_call(kRollCall);
  const int store_host = config_.host_store ? 0 : -1;
  if (!silent) return store_host == awaited ? -1 : store_host;
  if (silent->empty() || std::ranges::find(*silent, awaited) != silent->end()) return -1;
  return silent->front();
}

void Rendezvous::lost(int rank, double seconds, const std::string& why) {
  // A failure here is often the echo of another elsewhere: ask for that before blaming.
  herald_->await_cause(std::min(1.0, config_.timeout_s / 4));
  throw Lost{rank, seconds, why};
}

void Rendezvous::lost_in_silence(int rank, double seconds) {
  // The awaited rank may itself wait for one that is stopped.
  throw Lost{rank, seconds, fmt::format("no answer within the timeout of {} s", config_.timeout_s),
             culprit(rank)};
}

}  // namespace trireme::comm
