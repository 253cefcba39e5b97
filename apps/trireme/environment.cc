#include "environment.h"

#include <cstdlib>
#include <utility>

#include "apps/guard.h"
#include "trireme/base/error.h"

namespace trireme::app {
namespace {

std::optional<std::string> own_variable(const char* name) {
  const char* value = std::getenv(name);
  return value && *value ? std::optional<std::string>(value) : std::nullopt;
}

}  // namespace

Path cache_directory() {
  for (const auto& [name, below] :
       {std::pair("XDG_CACHE_HOME", "trireme"), std::pair("HOME", ".cache/trireme")})
    if (const char* base = std::getenv(name); base && *base == '/') return Path(base) / below;
  fail(
      ErrorKind::kUsage,
      "neither XDG_CACHE_HOME nor HOME names a directory for prepared datasets; set one, or give a "
      "prepared dataset as data.path");
}

Place find_place(std::optional<int> ranks, std::optional<int> nproc, int most) {
  return runs::find_place(own_variable, ranks, nproc, most);
}

Nodes find_nodes() { return runs::find_nodes(own_variable); }

LocatedDataset locate_dataset(const config::Data& data, const Note& say) {
  return runs::locate_dataset(
      data, {.cache = cache_directory, .headers = {TRIREME_TORCH_INCLUDE, "/usr/include"}}, say);
}

void print_note(const std::string& note) { print_error("note", note); }

Path find_checkpoint(const Path& path) { return runs::find_checkpoint(path, print_note); }

Path find_model(const Path& path) { return runs::find_model(path, print_note); }

}  // namespace trireme::app
