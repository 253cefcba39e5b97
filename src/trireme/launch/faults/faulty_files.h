// FaultyFiles: a file system of which calls go wrong.
#pragma once

#include <algorithm>
#include <functional>
#include <utility>

#include "trireme/base/os/through_files.h"
#include "trireme/launch/faults/fault.h"

namespace trireme::faults {

class FaultyFiles : public os::ThroughFiles {
 public:
  // Asked before every call that changes something; null: it is made as it should be. By any thread.
  using Decide = std::function<const Fault*(DiskCall)>;
  // Ends the process after a torn write.
  using Act = std::function<void(const Fault&)>;

  // `inner` outlives it.
  FaultyFiles(os::FileSystem& inner, Decide decide, Act act)
      : ThroughFiles(inner), decide_(std::move(decide)), act_(std::move(act)) {}

  int create(const Path& path) override {
    return call(DiskCall::kCreate, [&] { return ThroughFiles::create(path); });
  }
  ssize_t pwrite(int file, std::span<const std::byte> bytes, std::int64_t offset) override {
    const Fault* const fault = decide_(DiskCall::kWrite);
    if (fault == nullptr) return ThroughFiles::pwrite(file, bytes, offset);
    if (fault->action == Action::kError) return -fault->amount;
    if (fault->action == Action::kLie) return static_cast<ssize_t>(bytes.size());
    if (fault->action == Action::kFlip) {
      std::vector<std::byte> other(bytes.begin(), bytes.end());
      if (!other.empty()) other[other.size() / 2] ^= std::byte{4};
      return ThroughFiles::pwrite(file, other, offset);
    }
    const auto most = static_cast<std::size_t>(fault->amount);
    const ssize_t written =
        ThroughFiles::pwrite(file, bytes.first(std::min(most, bytes.size())), offset);
    if (fault->action == Action::kTorn) act_(*fault);
    return written;
  }
  int fsync(int file) override {
    return call(DiskCall::kFsync, [&] { return ThroughFiles::fsync(file); });
  }
  int close(int file) override {
    // The descriptor is gone also where closing fails.
    const int closed = ThroughFiles::close(file);
    return call(DiskCall::kClose, [&] { return closed; });
  }
  int make_directory(const Path& path) override {
    return call(DiskCall::kMakeDirectory, [&] { return ThroughFiles::make_directory(path); });
  }
  int fsync_directory(const Path& path) override {
    return call(DiskCall::kSyncDirectory, [&] { return ThroughFiles::fsync_directory(path); });
  }
  int rename(const Path& from, const Path& to) override {
    return call(DiskCall::kRename, [&] { return ThroughFiles::rename(from, to); });
  }
  int unlink(const Path& path) override {
    return call(DiskCall::kUnlink, [&] { return ThroughFiles::unlink(path); });
  }
  int remove_directory(const Path& path) override {
    return call(DiskCall::kRemoveDirectory, [&] { return ThroughFiles::remove_directory(path); });
  }

 private:
  template <typename Call>
  int call(DiskCall which, const Call& forward) {
    const Fault* const fault = decide_(which);
    return fault == nullptr ? forward() : -static_cast<int>(fault->amount);
  }

  Decide decide_;
  Act act_;
};

}  // namespace trireme::faults
