// A checkpoint held in memory, read through a file system that shows one of its files damaged, and whether that is
// refused by name.
#pragma once

#include <cerrno>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trireme/base/error.h"
#include "trireme/base/os/file_system.h"
#include "trireme/formats/checkpoint_files.h"

namespace trireme::harness {

// The files of one directory, which only we can change.
class HeldFiles : public os::FileSystem {
 public:
  HeldFiles(const Path& directory, os::FileSystem& from) : directory_(directory) {
    std::vector<std::string> names;
    if (from.list(directory, names) != 0)
      fail(ErrorKind::kUsage, "{}: cannot be listed; needs a checkpoint", directory.string());
    for (const std::string& name : names) {
      const auto contents = from.read(directory / name);
      const auto bytes = contents->bytes();
      held_[name] = {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
    }
  }

  const Path& directory() const { return directory_; }
  std::map<std::string, std::string>& files() { return held_; }
  // What is read of a file: its beginning, or with a byte more behind it.
  void show(const std::string& name, std::size_t size) { shown_ = {name, size}; }
  void show_all() { shown_ = {}; }

  int create(const Path&) override { return -EROFS; }
  ssize_t pwrite(int, std::span<const std::byte>, std::int64_t) override { return -EROFS; }
  int fsync(int) override { return -EROFS; }
  int close(int) override { return -EROFS; }
  int make_directory(const Path&) override { return -EROFS; }
  int fsync_directory(const Path&) override { return -EROFS; }
  int rename(const Path&, const Path&) override { return -EROFS; }
  int unlink(const Path&) override { return -EROFS; }
  int remove_directory(const Path&) override { return -EROFS; }

  os::Status status(const Path& path) override {
    if (path == directory_) return {.kind = os::Kind::kDirectory};
    if (!held_.contains(path.filename())) return {};
    return {.kind = os::Kind::kFile, .size = static_cast<std::int64_t>(size_of(path.filename()))};
  }
  int list(const Path&, std::vector<std::string>& names) override {
    for (const auto& [name, bytes] : held_) names.push_back(name);
    return 0;
  }
  std::unique_ptr<os::Contents> read(const Path& path) override {
    const auto found = held_.find(path.filename());
    if (found == held_.end()) fail(ErrorKind::kData, "{}: is not there", path.string());
    return std::make_unique<View>(found->second, size_of(found->first));
  }

 private:
  struct View : os::Contents {
    View(const std::string& held, std::size_t size) : bytes_(held.data(), size) {
      if (size <= held.size()) return;
      longer_ = held + std::string(size - held.size(), '\0');
      bytes_ = longer_;
    }
    std::span<const std::byte> bytes() const override { return std::as_bytes(std::span(bytes_)); }
    std::string longer_;
    std::string_view bytes_;
  };
  std::size_t size_of(const std::string& name) const {
    return shown_.first == name ? shown_.second : held_.at(name).size();
  }

  Path directory_;
  std::map<std::string, std::string> held_;
  std::pair<std::string, std::size_t> shown_;
};

// Damages a checkpoint one way at a time, asks the reader that training asks, and makes it whole again.
class DamageCheck {
 public:
  explicit DamageCheck(HeldFiles files) : files_(std::move(files)) {
    if (const std::string why = refusal(); !why.empty())
      fail(ErrorKind::kData, "{}: is damaged before it is touched: {}", files_.directory().string(),
           why);
  }

  HeldFiles& files() { return files_; }
  std::int64_t tried() const { return tried_; }
  // What was accepted, or refused without saying what is damaged.
  const std::vector<std::string>& wrong() const { return wrong_; }

  void flip(const std::string& name, std::size_t bit) {
    char& byte = files_.files().at(name)[bit / 8];
    const char turn = static_cast<char>(1 << (bit % 8));
    byte = static_cast<char>(byte ^ turn);
    judge(name, bit / 8, fmt::format("bit {} of byte {}", bit % 8, bit / 8));
    byte = static_cast<char>(byte ^ turn);
  }
  void cut(const std::string& name, std::size_t size) {
    files_.show(name, size);
    judge(name, std::nullopt, fmt::format("{} bytes", size));
    files_.show_all();
  }
  // Every bit of every byte; every length, and one byte more.
  void everything() {
    for (const auto& [name, bytes] : files_.files()) {
      for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) flip(name, bit);
      for (std::size_t size = 0; size <= bytes.size(); ++size)
        cut(name, size + (size == bytes.size() ? 1 : 0));
    }
  }

  // Empty: accepted.
  std::string refusal() {
    try {
      formats::open_checkpoint(files_.directory(), files_);
      return {};
    } catch (const Error& error) {
      return error.kind() == ErrorKind::kData ? error.what() : "";
    }
  }

 private:
  // Of a shard's damaged byte the message needs to name a range that holds it, and what lies there.
  static bool places(std::string_view message, std::size_t at) {
    constexpr std::string_view kBytes = "bytes ";
    const std::size_t found = message.find(kBytes);
    if (found == message.npos) return false;
    unsigned long long begin = 0, end = 0;
    const std::string range(message.substr(found));
    if (std::sscanf(range.c_str(), "bytes %llu to %llu", &begin, &end) != 2) return false;
    return begin <= at && at < end &&
           (range.find("tensor") != range.npos || range.find("header") != range.npos);
  }

  void judge(const std::string& name, std::optional<std::size_t> byte, const std::string& damage) {
    ++tried_;
    const std::string message = refusal();
    const bool shard = byte && name != formats::kManifestName;
    if (message.find(name) != message.npos && (!shard || places(message, *byte))) return;
    wrong_.push_back(fmt::format("{}, {}: {}", name, damage,
                                 message.empty() ? "accepted" : "refused as \"" + message + "\""));
  }

  HeldFiles files_;
  std::int64_t tried_ = 0;
  std::vector<std::string> wrong_;
};

}  // namespace trireme::harness
