// A file system of which one call goes wrong.
#pragma once

#include <atomic>
#include <cerrno>
#include <limits>
#include <vector>

#include "trireme/env/file_system.h"

namespace trireme::harness {

enum class FileFault {
  kError,    // fails with an errno
  kShort,    // a write takes one byte; other calls are cut short by a signal
  kLie,      // a write says that it took all, and took nothing; other calls are as they should be
  kTurnBit,  // a write takes another bit than it was given; other calls are as they should be
  kKill,     // this one and all after it do nothing, as if the process had died before
};

// Counts the calls that change something. Any thread may use it.
class FaultyFiles : public env::FileSystem {
 public:
  static constexpr int kNever = std::numeric_limits<int>::max();

  explicit FaultyFiles(env::FileSystem& inner) : inner_(inner) {}

  // The nth call from now, from 0.
  void fail(int nth, FileFault fault, int error = EIO) {
    error_ = error;
    fault_ = fault;
    calls_ = 0;
    nth_ = nth;
  }
  int calls() const { return calls_; }

  int create(const Path& path) override {
    return call([&] { return inner_.create(path); });
  }
  ssize_t pwrite(int file, std::span<const std::byte> bytes, std::int64_t offset) override {
    const bool now = calls_ == nth_;
    std::vector<std::byte> other;
    if (now && fault_ == FileFault::kShort) bytes = bytes.first(1);
    if (now && fault_ == FileFault::kTurnBit) {
      other.assign(bytes.begin(), bytes.end());
      other[other.size() / 2] ^= std::byte{4};
      bytes = other;
    }
    const bool lies = now && fault_ == FileFault::kLie;
    const auto forward = [&] {
      return lies ? static_cast<ssize_t>(bytes.size()) : inner_.pwrite(file, bytes, offset);
    };
    if (now && fault_ == FileFault::kShort) {
      ++calls_;
      return forward();
    }
    return call(forward);
  }
  int fsync(int file) override {
    return call([&] { return inner_.fsync(file); });
  }
  int close(int file) override { return inner_.close(file); }
  int make_directory(const Path& path) override {
    return call([&] { return inner_.make_directory(path); });
  }
  int fsync_directory(const Path& path) override {
    return call([&] { return inner_.fsync_directory(path); });
  }
  int rename(const Path& from, const Path& to) override {
    return call([&] { return inner_.rename(from, to); });
  }
  int unlink(const Path& path) override {
    return call([&] { return inner_.unlink(path); });
  }
  int remove_directory(const Path& path) override {
    return call([&] { return inner_.remove_directory(path); });
  }
  env::Status status(const Path& path) override { return inner_.status(path); }
  int list(const Path& path, std::vector<std::string>& names) override {
    return inner_.list(path, names);
  }
  std::unique_ptr<env::Contents> read(const Path& path) override { return inner_.read(path); }

 private:
  template <typename Call>
  auto call(const Call& forward) -> decltype(forward()) {
    const int number = calls_++;
    if (number < nth_ || (number > nth_ && fault_ != FileFault::kKill)) return forward();
    switch (fault_) {
      case FileFault::kError: return -error_;
      case FileFault::kShort: return -EINTR;
      case FileFault::kLie:
      case FileFault::kTurnBit: return forward();
      case FileFault::kKill: return -EIO;
    }
    return -EIO;
  }

  env::FileSystem& inner_;
  std::atomic<int> calls_ = 0;
  std::atomic<int> nth_ = kNever;
  FileFault fault_ = FileFault::kError;
  int error_ = EIO;
};

}  // namespace trireme::harness
