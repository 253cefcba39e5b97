// Text files that become a dataset, in an order that does not depend on the machine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trireme/base/fs.h"

namespace trireme::text {

// One document to be. `name` is stable across machines (path below the input, '/' between parts): the
// validation split hashes it.
struct SourceFile {
  Path path;
  std::string name;
  std::int64_t size = 0;
};

// Files as they are given, and regular files below directories whose name ends with one of `extensions` (".h"; empty:
// all). They are sorted by name within each input. Hidden entries and symbolic links inside directories are left out. A
// missing or special input, an unreadable directory, or no file at all is Error{kData}.
std::vector<SourceFile> collect_sources(const std::vector<Path>& inputs,
                                        const std::vector<std::string>& extensions = {});

// The quick start's text and what was left out of it.
struct QuickstartText {
  std::vector<SourceFile> files;
  std::int64_t bytes = 0;
  std::int64_t generated_bytes = 0;       // per-operator and otherwise machine-written headers
  std::int64_t near_duplicate_bytes = 0;  // most of whose lines were seen before
};

// C++ headers of LibTorch (ATen, c10, torch, caffe2) and of the newest libstdc++ (c++/N) below the include
// roots, such as /usr/include. Machine-written and near-duplicate files are left out. Error{kData} when a
// root holds none of them.
QuickstartText quickstart_text(const std::vector<Path>& include_roots);

}  // namespace trireme::text
