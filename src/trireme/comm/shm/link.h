// ShmLink: a process's view of the other processes of its host: which ones run, and where their memory is.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "trireme/comm/rendezvous/rendezvous.h"
#include "trireme/comm/shm/rings.h"
#include "trireme/comm/transport.h"

namespace trireme::comm {

// A rank's place in the memory of the world: which rings it has made.
struct alignas(64) Place {
  struct Made {
    std::uint64_t key;
    int file;
  };
  static constexpr std::size_t kMost = 4095;
  int process;
  std::atomic<bool> leaving;
  std::atomic<std::size_t> count;
  std::array<Made, kMost> made;
};

// A boot of a kernel, and the processes of it that see each other's files.
std::string this_host();

class ShmLink {
 public:
  // Joins the memory of rank `first`, which passes itself. Returns nothing, on every rank of the world, if any cannot
  // open it. Every rank of the world must call it.
  static std::shared_ptr<ShmLink> join(std::shared_ptr<Rendezvous> rendezvous, int first);

  // Waits for the other ranks of this host (30 s at most, and not if the world was aborted), because a late rank opens
  // the rings of a group from the rank that made them.
  ~ShmLink();

  const RendezvousConfig& config() const { return rendezvous_->config(); }
  void abort(const std::string& cause) { rendezvous_->abort(cause); }
  std::optional<std::string> cause() const { return rendezvous_->cause(); }
  void check_current() { rendezvous_->check_current(); }

  // The rings of the group that all its ranks call `key`. Its first rank makes them without delay; the others open them
  // as soon as they exist. Throws Lost.
  std::shared_ptr<Rings> rings(const std::string& key, const std::vector<int>& ranks, int rank);

  // Whether the process of a world rank has ended.
  bool ended(int rank) const { return !world_->taken(rank); }
  // Throws Lost if waiting for the rank has become useless: it has ended, or was silent for the whole
  // timeout, or the world was aborted.
  void judge(int rank, bool ended, double seconds);

 private:
  ShmLink(std::shared_ptr<Rendezvous> rendezvous, std::unique_ptr<Segment> world);
  Place& place(int rank) const { return reinterpret_cast<Place*>(world_->data())[rank]; }

  std::shared_ptr<Rendezvous> rendezvous_;
  std::unique_ptr<Segment> world_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<Rings>> made_;  // kept for ranks that arrive later
};

// The transport of a group of ranks that share memory; arguments as World::open.
std::unique_ptr<Transport> make_shm_transport(std::shared_ptr<ShmLink> link, const std::string& key,
                                              const std::vector<int>& ranks, int rank);

}  // namespace trireme::comm
