#include "trireme/comm/gloo/meeting.h"

#include <ATen/ops/from_blob.h>
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <utility>
#include <vector>

#include "trireme/base/clock.h"
#include "trireme/base/error.h"
#include "trireme/comm/gloo/guarded_device.h"
#include "trireme/comm/rendezvous/sockets.h"
#include "trireme/launch/elastic/backoff.h"
#include "trireme/launch/elastic/secret.h"

namespace trireme::comm {
namespace {

using Gloo = c10d::ProcessGroupGloo;
using Proof = std::array<char, elastic::kMacBytes>;

constexpr int kProofTag = 3;  // a group's tags are 0 to 2 above a multiple of 4

at::Tensor proof_tensor(Proof& proof) {
  return at::from_blob(proof.data(), {static_cast<std::int64_t>(proof.size())}, at::kByte);
}

// One attempt of all ranks.
class Meeting {
 public:
  Meeting(Rendezvous& rendezvous, int attempt)
      : rendezvous_(rendezvous),
        config_(rendezvous.config()),
        key_(fmt::format("meeting/{}", attempt)) {}

  // The connections, or nothing where a rank could not have them.
  c10::intrusive_ptr<Gloo> hold(const std::shared_ptr<::gloo::transport::Device>& device) {
    c10::intrusive_ptr<Gloo> group;
    attempt([&] { group = connect(device); });
    if (!all_agree("/connected")) return {};
    attempt([&] { prove(*group); });
    if (!all_agree("/proven")) return {};
    return group;
  }
  // Of this rank, or of another.
  const std::string& trouble() const { return trouble_; }

  // Ranks of others that cannot come any more are not waited for.
  bool given_up() {
    constexpr double kLook = 0.2;
    if (watch_.seconds() > config_.connect_timeout_s) return true;
    if (watch_.seconds() - looked_at_ < kLook) return false;
    looked_at_ = watch_.seconds();
    return rendezvous_.store()->check({failed_key()});
  }

 private:
  template <typename Step>
  void attempt(const Step& step) {
    try {
      step();
    } catch (const Error&) {
      throw;
    } catch (const std::exception& error) {
      trouble_ = gist(error);
      if (trouble_.empty()) trouble_ = "it gave no reason";
    }
  }

  bool all_agree(const std::string& what) {
    const std::string mine = trouble_;
    try {
      const std::string text = fmt::format("rank {}: {}", config_.rank, mine);
      if (!mine.empty()) rendezvous_.store()->set(failed_key(), {text.begin(), text.end()});
      if (rendezvous_.all_agree(key_ + what, mine.empty())) return true;
      const auto first = rendezvous_.store()->get(failed_key());
      trouble_ = {first.begin(), first.end()};
      return false;
    } catch (const Error&) {
      throw;
    } catch (const std::exception& error) {
      fail(ErrorKind::kPeerLost, "rank {}: the key-value store went away while ranks met: {}{}{}",
           config_.rank, gist(error), mine.empty() ? "" : "; before that: ", mine);
    }
  }

  c10::intrusive_ptr<Gloo> connect(const std::shared_ptr<::gloo::transport::Device>& device) {
    auto options = Gloo::Options::create(milliseconds(config_.connect_timeout_s));
    options->threads = 1;  // used by c10d's own collectives only
    options->devices.push_back(device);
    return c10::make_intrusive<Gloo>(
        c10::make_intrusive<c10d::PrefixStore>(key_, rendezvous_.store()), config_.rank,
        config_.size, options);
  }

  Proof proof(const std::string& secret, int from, int to) const {
    const std::string mac = elastic::hmac(secret, fmt::format("rank {} to rank {}", from, to));
    Proof proof{};
    std::copy(mac.begin(), mac.end(), proof.begin());
    return proof;
  }

  void prove(Gloo& group) {
    constexpr std::chrono::seconds kPatience{10};
    const std::string secret =
        rendezvous_.text_of(0, key_ + "/secret", elastic::random_bytes(elastic::kMacBytes));
    const auto size = static_cast<std::size_t>(config_.size);
    std::vector<Proof> mine(size), theirs(size);
    std::vector<std::pair<int, c10::intrusive_ptr<c10d::Work>>> works;  // goes before what it fills
    for (int rank = 0; rank < config_.size; ++rank) {
      if (rank == config_.rank) continue;
      const auto at = static_cast<std::size_t>(rank);
      mine[at] = proof(secret, config_.rank, rank);
      std::vector<at::Tensor> out = {proof_tensor(mine[at])}, in = {proof_tensor(theirs[at])};
      works.emplace_back(rank, group.recv(in, rank, kProofTag));
      works.emplace_back(rank, group.send(out, rank, kProofTag));
    }
    for (const auto& [rank, work] : works)
      if (!work->wait(kPatience))
        throw std::runtime_error(fmt::format("rank {} did not show the secret", rank));
    for (int rank = 0; rank < config_.size; ++rank)
      if (rank != config_.rank && theirs[rank] != proof(secret, rank, config_.rank))
        throw std::runtime_error(
            fmt::format("what has connected in place of rank {} does not have the secret", rank));
  }

  std::string failed_key() const { return key_ + "/failed"; }

  Rendezvous& rendezvous_;
  const RendezvousConfig& config_;
  std::string key_, trouble_;
  Stopwatch watch_;
  double looked_at_ = 0;
};

std::shared_ptr<::gloo::transport::Device> device_of(const RendezvousConfig& config,
                                                     GivenUp given_up) {
  try {
    DevicePlace place{.interface = config.interface};
    if (place.interface.empty()) place.address = address_towards(config.host, config.port);
    return make_guarded_device(place, std::move(given_up));
  } catch (const std::exception& e) {
    fail(ErrorKind::kUsage, "rank {}: no network device ({}): {}; name an interface of this host",
         config.rank, config.interface.empty() ? "default" : config.interface, gist(e));
  }
}

}  // namespace

c10::intrusive_ptr<Gloo> meet(Rendezvous& rendezvous) {
  constexpr int kAttempts = 10;
  constexpr double kFirstPause = 0.05, kLongestPause = 1;
  const RendezvousConfig& config = rendezvous.config();
  const auto given_up = std::make_shared<std::function<bool()>>();
  const auto device = device_of(config, given_up);
  elastic::Backoff pause(kFirstPause, kLongestPause);
  for (int attempt = 1;; ++attempt) {
    Meeting meeting(rendezvous, attempt);
    *given_up = [&] { return meeting.given_up(); };
    auto group = meeting.hold(device);
    *given_up = {};
    if (group) return group;
    if (attempt == kAttempts)
      fail(ErrorKind::kPeerLost, "rank {}: cannot connect to the other {} ranks in {} attempts: {}",
           config.rank, config.size - 1, kAttempts, meeting.trouble());
    std::this_thread::sleep_for(std::chrono::duration<double>(pause.next()));
  }
}

}  // namespace trireme::comm
