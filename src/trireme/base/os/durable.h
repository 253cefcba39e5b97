// Operations on a FileSystem: files written whole or not at all, removal of trees. All of it throws Error{kData} naming
// path and cause, unless it says otherwise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/base/os/file_system.h"

namespace trireme::os {

// A new file, written front to back. Unless finish() returned, the destructor removes it: a file whose fsync has
// failed may say on the next that all is well.
class NewFile {
 public:
  NewFile(FileSystem& files, Path path);
  ~NewFile();
  NewFile(NewFile&& other) noexcept;

  const Path& path() const { return path_; }
  void write(std::span<const std::byte> bytes);
  // Fsyncs and closes.
  void finish();

 private:
  FileSystem* files_;
  Path path_;
  int file_ = -1;
  std::int64_t size_ = 0;
};

// A new file of these bytes, synced and then read back: a disk may say that it took what it did not.
void write_new_file(FileSystem& files, const Path& path, std::string_view bytes);

void make_directory(FileSystem& files, const Path& path);
void fsync_directory(FileSystem& files, const Path& path);
void rename(FileSystem& files, const Path& from, const Path& to);
std::vector<std::string> list(FileSystem& files, const Path& path);

// A file, or a directory with all that is in it; what is not there is as if removed. Symbolic links are not followed.
void remove_tree(FileSystem& files, const Path& path);

// Renames it to `away` before removing it: a process killed in between leaves nothing that looks whole. `away` must be
// in the same directory, which is fsynced in between.
void rename_and_remove(FileSystem& files, const Path& path, const Path& away);

}  // namespace trireme::os
