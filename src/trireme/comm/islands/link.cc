#include "trireme/comm/islands/link.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/base/hash.h"
#include "trireme/comm/net/listener.h"

namespace trireme::comm {
namespace {

using namespace std::chrono_literals;

constexpr std::int64_t kAhead = 4;                     // means on their way or waiting to be taken
constexpr std::size_t kQueued = std::size_t{1} << 20;  // bytes that wait for the stream
constexpr double kPing_s = 2, kSilence_s = 15, kDial_s = 5;

}  // namespace

IslandLink::IslandLink(Config config)
    : config_(std::move(config)),
      tls_(std::make_unique<Tls>(config_.token)),
      wake_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (config_.copy.empty()) return;
  make_directories(config_.copy);
  if (config_.keeps_lines) copy_.emplace(config_.copy);
}

void IslandLink::ring() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &one, sizeof one);
}

IslandLink::~IslandLink() {
  stopping_ = true;
  ring();
  if (thread_.joinable()) thread_.join();
}

std::int64_t IslandLink::begin(const islands::Hello& hello) {
  hello_ = hello;
  start_ = next_ = hello.position;
  start_digest_ = last_digest_ = hello.line;
  if (copy_) {
    copy_->keep(hello.recipe);
    copy_->keep_owner(hello.island);
  }
  thread_ = std::thread([this] { run(); });
  const auto asked = [&] { return config_.asked != nullptr && config_.asked->load() != 0; };
  const Stopwatch waited;
  std::unique_lock lock(mutex_);
  while (!welcome_ && refused_.empty() && !asked() && waited.seconds() < config_.patience_s)
    changed_.wait_for(lock, 100ms);
  check();
  if (!welcome_ && asked())
    fail(ErrorKind::kPeerLost,
         "asked to stop before the leader of islands at {} took this island{}{}",
         os::print(config_.leader), trouble_.empty() ? "" : ": ", trouble_);
  if (!welcome_)
    fail(ErrorKind::kPeerLost,
         "no leader of islands at {} for {} seconds: {}. Start trireme islands there",
         os::print(config_.leader), config_.patience_s, trouble_);
  return *welcome_;
}

void IslandLink::check() const {
  if (!refused_.empty()) fail(ErrorKind::kUsage, "{}", refused_);
}

std::int64_t IslandLink::ready_entries() const {
  std::int64_t index = hello_.position;
  if (!known_.empty()) index = known_.begin()->first;
  for (const auto& [at, known] : known_) {
    if (at >= committed_ || !known.here()) break;
    index = at + 1;
  }
  return index;
}

std::int64_t IslandLink::ready(std::int64_t) {
  const std::lock_guard lock(mutex_);
  check();
  return ready_entries();
}

void IslandLink::wait(std::int64_t entries) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, 1s, [&] { return ready_entries() > entries || !refused_.empty(); });
  check();
}

std::string IslandLink::trouble() {
  const std::lock_guard lock(mutex_);
  return trouble_;
}

islands::Entry IslandLink::entry(std::int64_t index) {
  const std::lock_guard lock(mutex_);
  return known_.at(index).entry;
}

std::uint64_t IslandLink::line(std::int64_t index) {
  const std::lock_guard lock(mutex_);
  return known_.at(index).line;
}

// Entries before this one are no longer needed.
std::vector<std::byte> IslandLink::take_mean(std::int64_t index) {
  const std::lock_guard lock(mutex_);
  Known& known = known_.at(index);
  std::vector<std::byte> bytes;
  if (known.mean) bytes = known.mean->bytes();
  known.mean.reset();
  known.taken = true;
  known_.erase(known_.begin(), known_.lower_bound(index));
  ring();
  return bytes;
}

void IslandLink::offer(const islands::Offer& offer, std::vector<std::byte> bytes) {
  const std::lock_guard lock(mutex_);
  check();
  const std::uint64_t key = islands::offer_key(offer.fragment, offer.round);
  offers_[key] = {.offer = offer,
                  .bytes = std::make_shared<const std::vector<std::byte>>(std::move(bytes))};
  new_offers_.push_back(key);
  ring();
}

void IslandLink::leave(const islands::Leave& leave) {
  std::unique_lock lock(mutex_);
  leave_ = leave;
  ring();
  changed_.wait_for(lock, 2s, [&] { return !leave_; });
}

void IslandLink::run() {
  while (!stopping_.load()) {
    try {
      Frames frames(make_tls_client(*tls_,
                                    dial(digits_of(config_.leader.host),
                                         std::to_string(config_.leader.port), kDial_s, &stopping_),
                                    kIslandsName));
      serve(frames);
    } catch (const Error& error) {
      const std::lock_guard lock(mutex_);
      refused_ = error.what();
    } catch (const std::exception& error) {
      const std::lock_guard lock(mutex_);
      trouble_ = error.what();
    }
    {
      const std::lock_guard lock(mutex_);
      changed_.notify_all();
      if (!refused_.empty()) return;
    }
    for (int i = 0; i < 10 && !stopping_.load(); ++i) std::this_thread::sleep_for(50ms);
  }
}

void IslandLink::greet(Frames& frames) {
  const std::lock_guard lock(mutex_);
  go_back();
  hello_.position = next_;
  hello_.line = last_digest_;
  if (copy_ && copy_->size() > 0) {
    hello_.copied = copy_->size();
    hello_.copied_line = copy_->digest(copy_->size() - 1);
    hello_.term = copy_->entries().back().term;
  }
  frames.send(islands::print(hello_));
  for (const auto& [key, shown] : shown_)
    if (key != newest_) frames.send(islands::print(shown.files.about()));
  if (newest_ != 0) frames.send(islands::print(shown_.at(newest_).files.about()));
  sending_.clear();
  fetches_.clear();
  new_offers_.clear();
  for (const auto& [key, offered] : offers_) new_offers_.push_back(key);
  for (auto& [index, known] : known_) known.wanted = false;
}

void IslandLink::serve(Frames& frames) {
  greet(frames);
  Stopwatch heard, pinged;
  while (!stopping_.load()) {
    open_shown(frames);
    {
      const std::lock_guard lock(mutex_);
      for (const std::uint64_t key : std::exchange(new_offers_, {}))
        if (const auto found = offers_.find(key); found != offers_.end())
          frames.send(islands::print(found->second.offer));
      want_means(frames);
      pump(frames);
      acknowledge(frames);
      if (leave_ && frames.unsent() == 0) {
        frames.send(islands::print(*leave_));
        leave_.reset();
      }
      if (pinged.seconds() > kPing_s) {
        frames.send(islands::print(islands::Have{acknowledged_}));
        pinged = Stopwatch();
      }
    }
    pollfd waits[] = {{frames.descriptor(), frames.events(), 0}, {wake_.get(), POLLIN, 0}};
    ::poll(waits, 2, 500);
    std::uint64_t rung = 0;
    [[maybe_unused]] const ssize_t got = ::read(wake_.get(), &rung, sizeof rung);
    const std::lock_guard lock(mutex_);
    if (frames.move([&](std::string_view frame) { take(frames, frame); })) heard = Stopwatch();
    changed_.notify_all();
    if (heard.seconds() > kSilence_s) throw std::runtime_error("the leader is silent");
  }
  // A last message leaves if the stream takes it at once.
  frames.move([](std::string_view) {});
}

void IslandLink::take(Frames& frames, std::string_view frame) {
  if (frame.empty()) return;
  if (frame[0] == islands::kPieceMark) return take_piece(frames, frame);
  const islands::Message message = islands::parse_message(std::string(frame));
  if (const auto* welcome = std::get_if<islands::Welcome>(&message)) {
    take(*welcome);
  } else if (const auto* refusal = std::get_if<islands::Refusal>(&message)) {
    if (refusal->why.empty()) stopping_ = true;
    refused_ = refusal->why;
    throw std::runtime_error(refused_);
  } else if (const auto* have = std::get_if<islands::Have>(&message)) {
    commit(have->entries);
  } else if (const auto* news = std::get_if<islands::News>(&message)) {
    take(frames, *news);
  } else if (const auto* want = std::get_if<islands::Want>(&message)) {
    const auto found = offers_.find(want->key);
    if (found == offers_.end()) return;
    std::erase_if(sending_, [&](const Sending& one) { return one.key == want->key; });
    sending_.push_back({.key = want->key, .bytes = found->second.bytes, .next = want->from});
  } else if (const auto* fetch = std::get_if<islands::Fetch>(&message)) {
    take(frames, *fetch);
  }
}

void IslandLink::take(Frames& frames, const islands::News& news) {
  copy_line(news);
  if (news.index != next_) return;
  const std::string where = "an entry of the leader";
  const std::uint64_t before = known_.empty() ? islands::before_of(news.line, where) : last_digest_;
  islands::Entry entry = islands::parse_entry(news.line, news.index, before, where);
  last_digest_ = hash64(news.line);
  ++next_;
  if (entry.kind == islands::Entry::Kind::kMerge) keep_codes(news.index, entry);
  known_.emplace(news.index, Known{.entry = std::move(entry),
                                   .line = last_digest_,
                                   .bytes = news.bytes,
                                   .digest = news.digest});
}

void IslandLink::take_piece(Frames& frames, std::string_view frame) {
  const auto key = islands::key_of(frame);
  const auto found = key ? known_.find(static_cast<std::int64_t>(*key)) : known_.end();
  if (found == known_.end() || !found->second.mean) return;
  islands::Arriving& mean = *found->second.mean;
  if (mean.take(frame)) {
    if (!mean.complete()) return;
    if (mean.check()) return keep_mean(found->first, found->second);
  }
  if (mean.complete()) return;
  frames.send(islands::print(islands::Want{.key = *key, .from = mean.pieces()}));
}

void IslandLink::want_means(Frames& frames) {
  std::int64_t held = 0;
  for (auto& [index, known] : known_) {
    if (known.taken || known.bytes == 0) continue;
    if (++held > kAhead) return;
    if (known.here() || std::exchange(known.wanted, true)) continue;
    if (!known.mean) known.mean.emplace(known.bytes, known.digest);
    frames.send(islands::print(
        islands::Want{.key = static_cast<std::uint64_t>(index), .from = known.mean->pieces()}));
  }
}

void IslandLink::pump(Frames& frames) {
  while (!sending_.empty() && frames.unsent() < kQueued) {
    Sending& one = sending_.front();
    if (one.next < islands::pieces_of(std::ssize(*one.bytes)))
      frames.send(islands::piece_of(one.key, one.next++, *one.bytes));
    else
      sending_.erase(sending_.begin());
  }
  pump_states(frames);
}

}  // namespace trireme::comm
