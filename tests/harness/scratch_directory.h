// A directory among the temporary ones that lives as long as this object.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "trireme/base/fs.h"

namespace trireme::harness {

class ScratchDirectory {
 public:
  ScratchDirectory() {
    std::string pattern = (std::filesystem::temp_directory_path() / "trireme-").string();
    pattern.append(6, 'X');
    path_ = ::mkdtemp(pattern.data());
  }
  ~ScratchDirectory() { std::filesystem::remove_all(path_); }
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;

  const Path& path() const { return path_; }
  Path operator/(std::string_view name) const { return path_ / name; }

  Path write(const std::string& name, std::string_view bytes) const {
    const Path path = path_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return path;
  }

 private:
  Path path_;
};

}  // namespace trireme::harness
