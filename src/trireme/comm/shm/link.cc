#include "trireme/comm/shm/link.h"

#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <thread>
#include <utility>

#include "trireme/base/clock.h"
#include "trireme/base/error.h"
#include "trireme/base/fs.h"
#include "trireme/base/hash.h"

namespace trireme::comm {

namespace {

std::string address(int process, int file) { return fmt::format("/proc/{}/fd/{}", process, file); }

// Null where it cannot be opened.
std::unique_ptr<Segment> open_world(const std::string& path) {
  try {
    return std::make_unique<Segment>(path);
  } catch (const Error&) {
    return nullptr;
  }
}

}  // namespace

std::string this_host() {
  std::error_code none;
  return fmt::format("{} {}", read_file("/proc/sys/kernel/random/boot_id"),
                     std::filesystem::read_symlink("/proc/self/ns/pid", none).string());
}

std::shared_ptr<ShmLink> ShmLink::join(std::shared_ptr<Rendezvous> rendezvous, int first) {
  const RendezvousConfig& config = rendezvous->config();
  std::unique_ptr<Segment> world;
  if (config.rank == first)
    world = std::make_unique<Segment>(static_cast<std::size_t>(config.size) * sizeof(Place));
  const std::string path = rendezvous->text_of(
      first, "memory", world ? address(::getpid(), world->file()) : std::string());
  if (!world) world = open_world(path);
  if (world) world->take(config.rank);
  if (!rendezvous->all_agree("shared memory", world != nullptr)) return nullptr;
  return std::shared_ptr<ShmLink>(new ShmLink(std::move(rendezvous), std::move(world)));
}

ShmLink::ShmLink(std::shared_ptr<Rendezvous> rendezvous, std::unique_ptr<Segment> world)
    : rendezvous_(std::move(rendezvous)), world_(std::move(world)) {
  place(config().rank).process = ::getpid();
}

ShmLink::~ShmLink() {
  constexpr double kPatience = 30;
  place(config().rank).leaving = true;
  const auto stays = [this](int rank) { return !ended(rank) && !place(rank).leaving; };
  const Stopwatch watch;
  for (int rank = 0; rank < config().size - config().servers; ++rank)
    while (stays(rank) && !cause() && watch.seconds() < kPatience)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

std::shared_ptr<Rings> ShmLink::rings(const std::string& key, const std::vector<int>& ranks,
                                      int rank) {
  const int size = static_cast<int>(ranks.size());
  Place& maker = place(ranks[0]);
  if (rank == 0) {
    const auto rings = std::make_shared<Rings>(size);
    std::lock_guard lock(mutex_);
    const std::size_t count = maker.count;
    TRIREME_CHECK(count < Place::kMost, "a rank made more than {} groups", Place::kMost);
    maker.made[count] = {hash64(key), rings->file()};
    maker.count.store(count + 1, std::memory_order_release);
    return made_.emplace_back(rings);
  }
  const Stopwatch watch;
  for (std::size_t seen = 0;;) {
    const std::size_t count = maker.count.load(std::memory_order_acquire);
    while (seen < count && maker.made[seen].key != hash64(key)) ++seen;
    if (seen < count) try {
        return std::make_shared<Rings>(size, address(maker.process, maker.made[seen].file));
      } catch (const Error&) {
        rendezvous_->lost(ranks[0], watch.seconds(), "it has left");
      }
    judge(ranks[0], ended(ranks[0]), watch.seconds());
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

void ShmLink::judge(int rank, bool ended, double seconds) {
  if (cause()) throw Lost{rank, seconds, "the world was aborted"};
  if (ended) rendezvous_->lost(rank, seconds, "its process has ended");
  if (seconds >= config().timeout_s) rendezvous_->lost_in_silence(rank, seconds);
}

}  // namespace trireme::comm
