// Injector: makes the faults of one rank happen, at what its flight record and its disk calls say that it is at.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/base/fs.h"
#include "trireme/base/os/file_system.h"
#include "trireme/launch/faults/fault.h"
#include "trireme/launch/watch/witness.h"

namespace trireme::faults {

class Injector : public watch::Witness {
 public:
  struct Config {
    std::vector<Fault> faults{};  // of all ranks
    int rank = 0;
    std::uint64_t generation = 1;
    // File of injected faults, so that they are not repeated after a restart; a fault that cannot be recorded is not
    // injected.
    Path notes{};
    // Does all actions but those of a disk call; it need not return.
    std::function<void(const Fault&)> act{};
  };
  explicit Injector(Config config);
  ~Injector() override;

  // This rank has come to a stage of its start.
  void start(std::string_view stage);
  void see(const watch::Moment& moment) override;
  // Where checkpoints lie, and snapshots in memory: `inner`, which outlives it, with this rank's faults.
  os::FileSystem& files(os::FileSystem& inner) { return faulty(files_, inner, false); }
  os::FileSystem& memory_files(os::FileSystem& inner) { return faulty(memory_files_, inner, true); }

 private:
  struct Armed {
    explicit Armed(Fault what) : fault(std::move(what)) {}
    Fault fault;
    std::atomic<std::uint64_t> met{0};  // moments at which it holds
  };
  using Files = std::unique_ptr<os::FileSystem>;
  os::FileSystem& faulty(Files& files, os::FileSystem& inner, bool in_memory);
  // Called before a disk call. Returns its replacement; null: no replacement.
  const Fault* at(DiskCall call, bool in_memory);
  void act(const Fault& fault) const { config_.act(fault); }
  bool due(Armed& armed) const;
  bool noted(const Fault& fault) const;
  std::string line_of(const Fault& fault) const;

  Config config_;
  std::vector<std::unique_ptr<Armed>> armed_;
  Files files_, memory_files_;
  // Where the main thread is, for the threads that write.
  std::atomic<watch::Phase> phase_{watch::Phase::kStart};
  std::atomic<std::int64_t> step_{0};
};

}  // namespace trireme::faults
