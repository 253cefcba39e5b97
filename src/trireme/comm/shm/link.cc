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

// A boot of a kernel, and the processes of it that see each other's files.
std::string this_host() {
  std::error_code none;
  return fmt::format("{} {}", read_file("/proc/sys/kernel/random/boot_id"),
                     std::filesystem::read_symlink("/proc/self/ns/pid", none).string());
}

std::string address(int process, int file) { return fmt::format("/proc/{}/fd/{}", process, file); }

// Opens the memory that rank 0 tells of; null where that cannot be.
std::unique_ptr<Segment> open_world(const std::string& told) {
  const std::string here = this_host();
  if (!told.starts_with(here)) return nullptr;
  try {
    return std::make_unique<Segment>(told.substr(here.size()));
  } catch (const Error&) {
    return nullptr;
  }
}

}  // namespace

std::shared_ptr<ShmLink> ShmLink::join(std::unique_ptr<Rendezvous>& rendezvous) {
  const RendezvousConfig& config = rendezvous->config();
  std::unique_ptr<Segment> world;
  if (config.rank == 0)
    world = std::make_unique<Segment>(static_cast<std::size_t>(config.size) * sizeof(Place));
  const std::string told = rendezvous->told(
      "memory", world ? this_host() + address(::getpid(), world->file()) : std::string());
  if (!world) world = open_world(told);
  if (world) world->take(config.rank);
  if (!rendezvous->all_agree("shared memory", world != nullptr)) return nullptr;
  return std::shared_ptr<ShmLink>(new ShmLink(std::move(rendezvous), std::move(world)));
}

ShmLink::ShmLink(std::unique_ptr<Rendezvous> rendezvous, std::unique_ptr<Segment> world)
    : rendezvous_(std::move(rendezvous)), world_(std::move(world)) {
  place(rendezvous_->config().rank).process = ::getpid();
  rendezvous_->watch({});
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
        rendezvous_->lost(0, watch.seconds(), "it has left");
      }
    judge(ranks, 0, ended(ranks[0]), watch.seconds());
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

void ShmLink::judge(const std::vector<int>& ranks, int position, bool ended, double seconds) {
  const int rank = ranks[static_cast<std::size_t>(position)];
  if (cause()) throw Lost{position, seconds, "the world was aborted"};
  if (ended) rendezvous_->lost(position, seconds, "its process has ended");
  if (seconds >= timeout_s()) rendezvous_->lost_in_silence(rank, position, seconds);
}

}  // namespace trireme::comm
