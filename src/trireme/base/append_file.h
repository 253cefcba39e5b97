// AppendFile: a file that grows, on a disk that may be full for a while.
#pragma once

#include <string>
#include <string_view>

#include "trireme/base/fs.h"

namespace trireme {

// Bytes that cannot be written now wait in memory and are written before later ones. Nothing is torn or left out while
// the process lives.
class AppendFile {
 public:
  // Makes it, or appends to what is there. Throws Error{kData} where it cannot be opened.
  explicit AppendFile(Path path);
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  // Throws Error{kData} when more than 64 MiB wait.
  void add(std::string_view bytes);
  // Throws Error{kData} where something still cannot be written.
  void finish();

 private:
  bool write();  // whether nothing waits any more; errno says why

  Path path_;
  int file_;
  std::string waiting_;
};

}  // namespace trireme
