// Shared libraries that are looked for only when a file needs them.
#pragma once

#include <string>

namespace trireme::media {

// A library lib`name`.so in the directory of this program or on the system's path, which stays loaded, and its function
// of that name.
struct Plugin {
  void* function = nullptr;
  std::string absent{};  // why there is no such library
};
Plugin load_plugin(const std::string& name);

}  // namespace trireme::media
