// FaultyFiles: a file system whose calls meet the faults of an injector.
#pragma once

#include <algorithm>

#include "trireme/faults/injector.h"

namespace trireme::faults {

class FaultyFiles : public env::FileSystem {
 public:
  // Both outlive it.
  FaultyFiles(env::FileSystem& inner, Injector& injector) : inner_(inner), injector_(injector) {}

  int create(const Path& path) override {
    return call(DiskCall::kCreate, [&] { return inner_.create(path); });
  }
  ssize_t pwrite(int file, std::span<const std::byte> bytes, std::int64_t offset) override {
    const Fault* const fault = injector_.at(DiskCall::kWrite);
    if (fault == nullptr) return inner_.pwrite(file, bytes, offset);
    if (fault->action == Action::kError) return -fault->amount;
    if (fault->action == Action::kLie) return static_cast<ssize_t>(bytes.size());
    const auto most = static_cast<std::size_t>(fault->amount);
    const ssize_t written = inner_.pwrite(file, bytes.first(std::min(most, bytes.size())), offset);
    if (fault->action == Action::kTorn) injector_.act(*fault);
    return written;
  }
  int fsync(int file) override {
    return call(DiskCall::kFsync, [&] { return inner_.fsync(file); });
  }
  int close(int file) override {
    // The descriptor is gone also where closing fails.
    const int closed = inner_.close(file);
    return call(DiskCall::kClose, [&] { return closed; });
  }
  int make_directory(const Path& path) override {
    return call(DiskCall::kMakeDirectory, [&] { return inner_.make_directory(path); });
  }
  int fsync_directory(const Path& path) override {
    return call(DiskCall::kSyncDirectory, [&] { return inner_.fsync_directory(path); });
  }
  int rename(const Path& from, const Path& to) override {
    return call(DiskCall::kRename, [&] { return inner_.rename(from, to); });
  }
  int unlink(const Path& path) override {
    return call(DiskCall::kUnlink, [&] { return inner_.unlink(path); });
  }
  int remove_directory(const Path& path) override {
    return call(DiskCall::kRemoveDirectory, [&] { return inner_.remove_directory(path); });
  }
  env::Status status(const Path& path) override { return inner_.status(path); }
  int list(const Path& path, std::vector<std::string>& names) override {
    return inner_.list(path, names);
  }
  std::unique_ptr<env::Contents> read(const Path& path) override { return inner_.read(path); }

 private:
  template <typename Call>
  int call(DiskCall which, const Call& forward) {
    const Fault* const fault = injector_.at(which);
    return fault == nullptr ? forward() : -static_cast<int>(fault->amount);
  }

  env::FileSystem& inner_;
  Injector& injector_;
};

}  // namespace trireme::faults
