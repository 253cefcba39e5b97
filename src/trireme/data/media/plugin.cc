#include "trireme/data/media/plugin.h"

#include <dlfcn.h>

#include <filesystem>

namespace trireme::media {

Plugin load_plugin(const std::string& name) {
  const std::string file = "lib" + name + ".so";
  std::error_code ignored;
  const auto beside = std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path() / file;
  const std::string path = std::filesystem::exists(beside, ignored) ? beside.string() : file;
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return {.absent = ::dlerror()};
  void* function = ::dlsym(library, name.c_str());
  if (function == nullptr) return {.absent = ::dlerror()};
  return {.function = function};
}

}  // namespace trireme::media
