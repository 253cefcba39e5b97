// IslandLink: a rank's connection to the leader of elastic islands. A thread of its own keeps it, so that training does
// not wait for the network.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "trireme/base/clock.h"
#include "trireme/base/fs.h"
#include "trireme/base/os/address.h"
#include "trireme/base/os/descriptor.h"
#include "trireme/comm/islands/frames.h"
#include "trireme/launch/islands/source.h"
#include "trireme/launch/islands/state.h"

namespace trireme::comm {

class IslandLink final : public islands::Source {
 public:
  struct Config {
    os::Address leader{};
    std::string token{};
    Path copy{};              // directory of this island's copy of the tape; empty: it keeps none
    bool keeps_lines = true;  // of the tape; other ranks keep their parts of codes and means alone
    double patience_s = 60;   // without the leader before the first step
    const std::atomic<int>* asked = nullptr;  // nonzero: not even that long
  };
  explicit IslandLink(Config config);
  ~IslandLink() override;

  std::int64_t begin(const islands::Hello& hello) override;
  std::int64_t ready(std::int64_t when) override;
  void wait(std::int64_t entries) override;
  std::string trouble() override;
  islands::Entry entry(std::int64_t index) override;
  std::uint64_t line(std::int64_t index) override;
  std::vector<std::byte> take_mean(std::int64_t index) override;
  void offer(const islands::Offer& offer, std::vector<std::byte> bytes) override;
  void leave(const islands::Leave& leave) override;
  void show(const Path& checkpoint) override;

 private:
  using Bytes = std::shared_ptr<const std::vector<std::byte>>;
  struct Offered {
    islands::Offer offer;
    Bytes bytes;
    std::optional<std::int64_t> merged{};  // the entry: not needed once it is committed
  };
  // A checkpoint that islands which join can take. An older one is kept while it is fetched.
  struct Shown {
    islands::StateFiles files;
    Stopwatch fetched{};
  };
  struct Known {
    islands::Entry entry;
    std::uint64_t line = 0;                   // digest
    std::int64_t bytes = 0;                   // of the mean
    std::uint64_t digest = 0;                 // and its digest
    std::optional<islands::Arriving> mean{};  // once it is wanted
    bool wanted = false, taken = false;
    bool here() const { return taken || bytes == 0 || (mean && mean->complete()); }
  };
  struct Sending {
    std::uint64_t key = 0;
    Bytes bytes;
    std::int64_t next = 0;
  };
  void run();
  void serve(Frames& frames);
  void greet(Frames& frames);
  void take(Frames& frames, std::string_view frame);
  void take(Frames& frames, const islands::News& news);
  void take(const islands::Welcome& welcome);
  void take(Frames& frames, const islands::Fetch& fetch);
  void copy_line(const islands::News& news);
  void acknowledge(Frames& frames);
  void keep_codes(std::int64_t index, const islands::Entry& entry);
  void keep_mean(std::int64_t index, const Known& known);
  void go_back();
  void open_shown(Frames& frames);
  void commit(std::int64_t entries);
  void take_piece(Frames& frames, std::string_view frame);
  void want_means(Frames& frames);
  void pump(Frames& frames);
  void pump_states(Frames& frames);
  void ring();
  void check() const;  // throws what the leader refused
  std::int64_t ready_entries() const;

  Config config_;
  std::unique_ptr<Tls> tls_;
  mutable std::mutex mutex_;  // of everything below
  std::condition_variable changed_;
  islands::Hello hello_{};
  std::optional<islands::Tape> copy_;
  std::map<std::uint64_t, Offered> offers_;
  std::vector<std::uint64_t> new_offers_;
  std::vector<Sending> sending_;
  std::map<std::int64_t, Known> known_;               // by index
  std::int64_t start_ = 0, next_ = 0;                 // the first entry, and the one to come
  std::uint64_t start_digest_ = 0, last_digest_ = 0;  // of the lines before them
  std::int64_t held_ = 0;                             // entries of the copy that the leader has
  std::int64_t acknowledged_ = 0;                     // to the leader
  std::int64_t term_ = 0;                             // of the leader
  std::int64_t committed_ = 0;
  std::optional<std::int64_t> welcome_;
  std::optional<islands::Leave> leave_;
  Path to_show_;
  std::map<std::uint64_t, Shown> shown_;
  std::uint64_t newest_ = 0;  // of them
  std::deque<islands::Want> fetches_;
  std::string refused_, trouble_;
  std::atomic<bool> stopping_ = false;
  os::Descriptor wake_;
  std::thread thread_;
};

}  // namespace trireme::comm
