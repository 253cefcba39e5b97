// RankWatch: names ranks of this process that hang. Where each rank is a process, their agent does.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "trireme/comm/world.h"
#include "trireme/launch/watch/silence.h"
#include "trireme/launch/watch/verdict.h"

namespace trireme::app {

class RankWatch {
 public:
  // Called once for each hang, from a thread of the watch: what it is, and what every rank was at.
  using OnHang = std::function<void(const watch::Hang&, const std::vector<std::string>& lines)>;

  // Watches a world of `ranks` threads. 0 in patience.steps: nothing is watched.
  RankWatch(const watch::Patience& patience, int ranks, OnHang on_hang);
  ~RankWatch();

  // A rank's record, while the returned object lives.
  class Member {
   public:
    Member(RankWatch& watch, const comm::World& world);
    ~Member();
    Member(const Member&) = delete;
    Member& operator=(const Member&) = delete;

   private:
    RankWatch& watch_;
    int rank_;
  };

 private:
  void run();
  void look();

  watch::Patience patience_;
  int ranks_;
  OnHang on_hang_;
  std::mutex mutex_;
  std::condition_variable over_;
  bool done_ = false;
  std::map<int, const watch::Area*> areas_;
  watch::Silences silences_;
  std::vector<int> reported_;
  std::thread thread_;
};

}  // namespace trireme::app
