#include "trireme/comm/gloo/link.h"

#include <ATen/ops/from_blob.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <utility>

#include "trireme/base/clock.h"
#include "trireme/base/error.h"
#include "trireme/base/hash.h"
#include "trireme/comm/gloo/sockets.h"

namespace trireme::comm {
namespace {

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

// The first line of a LibTorch or Gloo message, without the source location in front.
std::string gist(const std::exception& error) {
  // what() of c10's errors looks up the symbols of a stack trace first: seconds on 2.x.
  const auto* ours = dynamic_cast<const c10::Error*>(&error);
  std::string text = ours ? ours->what_without_backtrace() : error.what();
  text = text.substr(0, text.find('\n'));
  if (text.starts_with('[') && text.find("] ") != std::string::npos)
    text = text.substr(text.find("] ") + 2);
  return text;
}

// LibTorch 2.x may be built without libuv and then refuses its own default.
template <typename Options>
void without_libuv(Options& options) {
  if constexpr (requires { options.useLibUV; }) options.useLibUV = false;
}

constexpr double kRollCall = 1.0;  // seconds that a process has to say that it runs

at::Tensor bytes_tensor(const std::byte* data, std::size_t bytes) {
  return at::from_blob(const_cast<std::byte*>(data), {static_cast<std::int64_t>(bytes)}, at::kByte);
}

}  // namespace

GlooLink::GlooLink(const GlooConfig& config) : config_(config) {
  open_stores();
  gather_ranks();
  connect_ranks();
  herald_ =
      std::make_unique<Herald>(herald_store_, config_.rank, config_.size, [this] { wake_all(); });
}

void GlooLink::open_stores() {
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

void GlooLink::gather_ranks() {
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

void GlooLink::connect_ranks() {
  using Gloo = c10d::ProcessGroupGloo;
  auto options = Gloo::Options::create(milliseconds(config_.connect_timeout_s));
  options->threads = 1;  // used by c10d's own collectives only
  try {
    if (!config_.interface.empty()) {
      options->devices.push_back(Gloo::createDeviceForInterface(config_.interface));
    } else {
      options->devices.push_back(
          Gloo::createDeviceForHostname(address_towards(config_.host, config_.port)));
    }
  } catch (const std::exception& e) {
    fail(ErrorKind::kUsage, "rank {}: no network device ({}): {}; name an interface of this host",
         config_.rank, config_.interface.empty() ? "default" : config_.interface, gist(e));
  }
  try {
    process_group_ = c10::make_intrusive<Gloo>(store_, config_.rank, config_.size, options);
  } catch (const std::exception& e) {
    fail(ErrorKind::kPeerLost, "rank {}: cannot connect to the other {} ranks: {}", config_.rank,
         config_.size - 1, gist(e));
  }
}

GlooLink::~GlooLink() {
  const bool aborted = cause().has_value();
  herald_.reset();
  if (!(config_.host_store && config_.rank == 0)) return;
  // Whoever still runs learns from the store what happened, so it stays while anyone may look.
  const double patience = aborted ? 1.0 : 30.0;
  const Stopwatch watch;
  try {
    while (watch.seconds() < patience && store_->add(Herald::kLeftKey, 0) < config_.size)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
  } catch (const std::exception&) {
    // Its own store failed: nobody can be told anything any more.
  }
}

GlooLink::Work GlooLink::send(int rank, int tag, const std::byte* data, std::size_t bytes,
                              int position) {
  std::vector<at::Tensor> tensors = {bytes_tensor(data, bytes)};
  std::unique_lock lock(post_mutex_);
  try {
    return process_group_->send(tensors, rank, tag);
  } catch (const std::exception& e) {
    lock.unlock();
    lost(rank, position, 0.0, gist(e));
  }
}

GlooLink::Work GlooLink::recv(int rank, int tag, std::byte* data, std::size_t bytes, int position) {
  std::vector<at::Tensor> tensors = {bytes_tensor(data, bytes)};
  std::unique_lock lock(post_mutex_);
  try {
    return process_group_->recv(tensors, rank, tag);
  } catch (const std::exception& e) {
    lock.unlock();
    lost(rank, position, 0.0, gist(e));
  }
}

void GlooLink::wait(const Work& work, int rank, int position) {
  const Stopwatch watch;
  {
    std::lock_guard lock(waiting_mutex_);
    waiting_.insert(work.get());
  }
  // After it is registered: whoever sets a cause from now on wakes this wait.
  std::string why = cause() ? "the world was aborted" : "";
  try {
    if (why.empty() && !work->wait(milliseconds(config_.timeout_s))) why = "the world was aborted";
  } catch (const std::exception& e) {
    why = watch.seconds() < config_.timeout_s
              ? gist(e)
              : fmt::format("no answer within the timeout of {} s", config_.timeout_s);
  }
  {
    std::lock_guard lock(waiting_mutex_);
    waiting_.erase(work.get());
  }
  if (!why.empty()) lost(rank, position, watch.seconds(), why);
}

int GlooLink::culprit(int awaited) {
  const auto silent = herald_->roll_call(kRollCall);
  const int store_host = config_.host_store ? 0 : -1;
  if (!silent) return store_host == awaited ? -1 : store_host;
  if (silent->empty() || std::ranges::find(*silent, awaited) != silent->end()) return -1;
  return silent->front();
}

void GlooLink::lost(int rank, int position, double seconds, const std::string& why) {
  // The awaited rank may itself wait for one that is stopped.
  if (seconds >= config_.timeout_s) throw Lost{position, seconds, why, culprit(rank)};
  // A closed connection is often the echo of a failure elsewhere: ask what that was before blaming.
  herald_->await_cause(std::min(1.0, config_.timeout_s / 4));
  throw Lost{position, seconds, why};
}

int GlooLink::claim_tag(const std::string& key) {
  const int tag = static_cast<int>(hash64(key) & 0x1FFFFFFF) << 2;
  TRIREME_CHECK(tags_.insert(tag).second,
                "group '{}' hashes like another group of this rank: rename it", key);
  return tag;
}

void GlooLink::wake_all() {
  std::lock_guard lock(waiting_mutex_);
  for (c10d::Work* work : waiting_) work->abort();
}

}  // namespace trireme::comm
