#include "trireme/comm/islands/state_transfer.h"

#include <fmt/format.h>
#include <poll.h>

#include <chrono>
#include <memory>
#include <stdexcept>
#include <thread>

#include "trireme/base/clock.h"
#include "trireme/base/error.h"
#include "trireme/base/hash.h"
#include "trireme/comm/islands/frames.h"
#include "trireme/comm/net/listener.h"
#include "trireme/formats/checkpoint_files.h"
#include "trireme/launch/islands/state.h"

namespace trireme::comm {
namespace {

using namespace std::chrono_literals;
using islands::State;
using islands::StateFiles;

constexpr double kTransferDial_s = 2,
                 kAgain_s = 5;         // until chunks that are missing are fetched again
constexpr std::int64_t kAtATime = 32;  // chunks on their way

class Taking {
 public:
  Taking(const StateTransfer& transfer, const islands::Seek& seek)
      : transfer_(transfer), seek_(seek), tls_(transfer.token) {}

  std::optional<Path> operator()() {
    while (!asked() && progress_.seconds() < transfer_.patience_s) {
      try {
        Frames frames(make_tls_client(tls_,
                                      dial(digits_of(transfer_.leader.host),
                                           std::to_string(transfer_.leader.port), kTransferDial_s),
                                      kIslandsName));
        if (serve(frames)) return files_ ? std::optional(commit()) : std::nullopt;
      } catch (const Error&) {
        throw;
      } catch (const std::exception&) {  // of the network: once more
        std::this_thread::sleep_for(100ms);
      }
    }
    return std::nullopt;
  }

 private:
  bool asked() const { return transfer_.asked != nullptr && transfer_.asked->load() != 0; }

  // Returns true once all of it is here, or there is none.
  bool serve(Frames& frames) {
    answered_ = false;
    fetched_ = -1;
    frames.send(islands::print(seek_));
    while (!asked() && progress_.seconds() < transfer_.patience_s) {
      pollfd wait{frames.descriptor(), frames.events(), 0};
      ::poll(&wait, 1, 500);
      frames.move([&](std::string_view frame) { take(frame); });
      if (!answered_) continue;
      if (!files_ || files_->complete()) return true;
      fetch(frames);
    }
    return false;
  }

  void take(std::string_view frame) {
    if (frame.empty()) return;
    if (frame[0] == islands::kPieceMark) {
      if (files_ && files_->take(frame)) progress_ = Stopwatch();
      return;
    }
    const islands::Message message = islands::parse_message(std::string(frame));
    if (const auto* state = std::get_if<State>(&message)) begin(*state);
  }

  void begin(const State& state) {
    answered_ = true;
    fetched_ = -1;
    if (files_ && files_->about().key == state.key) return;
    files_.reset();
    if (state.files.empty()) return;
    if (const std::string why = transfer_.refuses(state); !why.empty())
      return transfer_.on_note(
          fmt::format("island {} takes the means of the tape, not the state of island {}: {}",
                      seek_.island, state.island, why));
    progress_ = Stopwatch();
    // Chunks of another state are of no use.
    at_ = transfer_.incoming / hex64(state.key);
    if (!std::filesystem::exists(at_)) std::filesystem::remove_all(transfer_.incoming);
    make_directories(at_);
    files_.emplace(at_, state, StateFiles::For::kWriting);
    transfer_.on_note(fmt::format("island {} takes the state of island {} after step {}: {:.1f} MB",
                                  seek_.island, state.island, state.step,
                                  static_cast<double>(state.bytes()) / 1e6));
  }

  // Half of the chunks on their way is fetched at a time; chunks that do not come are fetched again.
  void fetch(Frames& frames) {
    const std::int64_t all = islands::pieces_of(files_->about().bytes());
    const bool again = fetched_ > files_->pieces() && waited_.seconds() > kAgain_s &&
                       progress_.seconds() > kAgain_s;
    if (fetched_ < files_->pieces() || again) fetched_ = files_->pieces();
    const std::int64_t until = std::min(all, files_->pieces() + kAtATime);
    if (until - fetched_ < std::min(kAtATime / 2, all - fetched_) || until == fetched_) return;
    frames.send(islands::print(
        islands::Fetch{.key = files_->about().key, .from = fetched_, .count = until - fetched_}));
    fetched_ = until;
    waited_ = Stopwatch();
  }

  // Every byte is compared with its digest.
  Path commit() {
    const State state = files_->about();
    files_->sync();
    files_.reset();
    try {
      formats::verify_checkpoint(at_);
    } catch (const Error&) {
      std::filesystem::remove_all(transfer_.incoming);
      throw;
    }
    const Path path = transfer_.checkpoints / fmt::format("step-{}", state.step);
    if (std::filesystem::exists(path))
      fail(ErrorKind::kData,
           "{} is there, but this run does not continue it, and islands that train are at the same "
           "step. Move it away",
           path.string());
    make_directories(transfer_.checkpoints);
    std::filesystem::rename(at_, path);
    fsync_directory(transfer_.checkpoints);
    std::filesystem::remove_all(transfer_.incoming);
    return path;
  }

  const StateTransfer& transfer_;
  islands::Seek seek_;
  Tls tls_;
  Path at_{};
  std::optional<StateFiles> files_{};
  bool answered_ = false;
  std::int64_t fetched_ = -1;  // chunks before this one are here or on their way
  Stopwatch progress_{}, waited_{};
};

}  // namespace

std::optional<Path> take_state(const StateTransfer& transfer, const islands::Seek& seek) {
  return Taking(transfer, seek)();
}

}  // namespace trireme::comm
