// A file system in memory that remembers every call which changed it, so that tests can say what a disk may hold when
// power goes after any of them.
#pragma once

#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "trireme/base/error.h"
#include "trireme/base/os/file_system.h"

namespace trireme::harness {

// One call, by what it changed: the bytes of a file, or a name in a directory. Files and directories have numbers that
// stay theirs; 0 is the root.
struct DiskOp {
  enum class Kind { kName, kUnname, kRename, kWrite, kSync, kMark };
  Kind kind = Kind::kMark;
  int where = 0;     // the directory; of kWrite and kSync the file or directory itself
  std::string name;  // in it
  std::string to;    // of kRename, in the same directory
  int what = 0;      // of kName: the new file or directory; of kMark: its number
  bool directory = false;
  std::int64_t offset = 0;
  std::string bytes;
};

// What a disk holds.
struct Disk {
  struct Node {
    bool directory = false;
    std::string bytes;
    std::map<std::string, int> names;
  };
  std::map<int, Node> nodes{{0, {.directory = true}}};

  // What an op cannot do, because one before it was lost, it does not do.
  void apply(const DiskOp& op) {
    const auto found = nodes.find(op.where);
    Node& node = found == nodes.end() ? nodes[op.where] : found->second;
    switch (op.kind) {
      case DiskOp::Kind::kName:
        node.directory = true;
        node.names[op.name] = op.what;
        nodes[op.what].directory = op.directory;
        break;
      case DiskOp::Kind::kUnname: node.names.erase(op.name); break;
      case DiskOp::Kind::kRename:
        if (const auto from = node.names.extract(op.name)) node.names[op.to] = from.mapped();
        break;
      case DiskOp::Kind::kWrite: {
        const auto end = static_cast<std::size_t>(op.offset) + op.bytes.size();
        if (node.bytes.size() < end) node.bytes.resize(end);
        node.bytes.replace(static_cast<std::size_t>(op.offset), op.bytes.size(), op.bytes);
        break;
      }
      case DiskOp::Kind::kSync:
      case DiskOp::Kind::kMark: break;
    }
  }

  // The number of what a path names, -1 for nothing.
  int find(const Path& path) const {
    int at = 0;
    for (const Path& part : path.relative_path()) {
      const auto& names = nodes.at(at).names;
      const auto next = names.find(part.string());
      if (next == names.end()) return -1;
      at = next->second;
    }
    return at;
  }
};

// All that can be reached on a disk: equal texts, equal disks.
inline std::string text_of(const Disk& disk, int at = 0) {
  const Disk::Node& node = disk.nodes.at(at);
  if (!node.directory) return std::to_string(node.bytes.size()) + ":" + node.bytes;
  std::string text = "{";
  for (const auto& [name, number] : node.names) text += name + "=" + text_of(disk, number);
  return text + "}";
}

class MemoryFiles : public os::FileSystem {
 public:
  MemoryFiles() = default;
  explicit MemoryFiles(Disk disk) : disk_(std::move(disk)), numbers_(disk_.nodes.rbegin()->first) {}

  std::vector<DiskOp> log() const { return log_; }
  Disk& disk() { return disk_; }
  void mark(int number) { log_.push_back({.kind = DiskOp::Kind::kMark, .what = number}); }

  int create(const Path& path) override { return add(path, false); }
  ssize_t pwrite(int file, std::span<const std::byte> bytes, std::int64_t offset) override {
    change({.kind = DiskOp::Kind::kWrite,
            .where = file,
            .offset = offset,
            .bytes = {reinterpret_cast<const char*>(bytes.data()), bytes.size()}});
    return static_cast<ssize_t>(bytes.size());
  }
  int fsync(int file) override { return change({.kind = DiskOp::Kind::kSync, .where = file}); }
  int close(int) override { return 0; }
  int make_directory(const Path& path) override { return std::min(add(path, true), 0); }
  int fsync_directory(const Path& path) override {
    const int node = find(path);
    return node < 0 ? -ENOENT : change({.kind = DiskOp::Kind::kSync, .where = node});
  }
  int rename(const Path& from, const Path& to) override {
    EXPECT_EQ(from.parent_path(), to.parent_path()) << "between directories is not modelled";
    const int directory = find(from.parent_path());
    if (find(from) < 0) return -ENOENT;
    if (const int taken = find(to); taken >= 0 && !disk_.nodes.at(taken).names.empty())
      return -ENOTEMPTY;
    return change({.kind = DiskOp::Kind::kRename,
                   .where = directory,
                   .name = from.filename(),
                   .to = to.filename()});
  }
  int unlink(const Path& path) override { return remove(path, false); }
  int remove_directory(const Path& path) override { return remove(path, true); }

  os::Status status(const Path& path) override {
    const int node = find(path);
    if (node < 0) return {};
    const Disk::Node& found = disk_.nodes.at(node);
    return {.kind = found.directory ? os::Kind::kDirectory : os::Kind::kFile,
            .size = static_cast<std::int64_t>(found.bytes.size())};
  }
  int list(const Path& path, std::vector<std::string>& names) override {
    const int node = find(path);
    if (node < 0 || !disk_.nodes.at(node).directory) return -ENOTDIR;
    for (const auto& [name, number] : disk_.nodes.at(node).names) names.push_back(name);
    return 0;
  }
  std::unique_ptr<os::Contents> read(const Path& path) override {
    const int node = find(path);
    if (node < 0 || disk_.nodes.at(node).directory)
      fail(ErrorKind::kData, "{}: is not a regular file", path.string());
    return std::make_unique<Held>(disk_.nodes.at(node).bytes);
  }

 private:
  struct Held : os::Contents {
    explicit Held(std::string b) : held(std::move(b)) {}
    std::span<const std::byte> bytes() const override { return std::as_bytes(std::span(held)); }
    std::string held;
  };

  int find(const Path& path) const { return disk_.find(path); }
  int change(DiskOp op) {
    const std::lock_guard lock(mutex_);
    disk_.apply(op);
    log_.push_back(std::move(op));
    return 0;
  }
  int add(const Path& path, bool directory) {
    const int parent = find(path.parent_path());
    if (parent < 0) return -ENOENT;
    if (find(path) >= 0) return -EEXIST;
    const int number = ++numbers_;
    change({.kind = DiskOp::Kind::kName,
            .where = parent,
            .name = path.filename(),
            .what = number,
            .directory = directory});
    return number;
  }
  int remove(const Path& path, bool directory) {
    const int node = find(path);
    if (node < 0) return -ENOENT;
    if (disk_.nodes.at(node).directory != directory) return directory ? -ENOTDIR : -EISDIR;
    if (!disk_.nodes.at(node).names.empty()) return -ENOTEMPTY;
    return change({.kind = DiskOp::Kind::kUnname,
                   .where = find(path.parent_path()),
                   .name = path.filename()});
  }

  std::mutex mutex_;
  Disk disk_;
  std::vector<DiskOp> log_;
  int numbers_ = 0;  // the highest that is taken
};

}  // namespace trireme::harness
