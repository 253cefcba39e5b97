#include "trireme/data/media/hdf5.h"

#include <mutex>

#include "trireme/base/error.h"
#include "trireme/data/media/plugin.h"

namespace trireme::media {
namespace {

struct Hdf5Library {
  const Hdf5Plugin* plugin = nullptr;
  std::string absent{};
};

const Hdf5Library& hdf5_library() {
  static const Hdf5Library loaded = [] {
    const Plugin plugin = load_plugin("trireme_hdf5");
    if (plugin.function == nullptr) return Hdf5Library{.absent = plugin.absent};
    return Hdf5Library{.plugin = reinterpret_cast<const Hdf5Plugin* (*)()>(plugin.function)()};
  }();
  return loaded;
}

const Hdf5Plugin& need_hdf5(const Path& path) {
  if (hdf5_library().plugin == nullptr)
    fail(ErrorKind::kUsage, "{}: HDF5 files need libhdf5-dev: install it and build again ({})",
         path.string(), hdf5_library().absent);
  return *hdf5_library().plugin;
}

std::mutex& one_at_a_time() {
  static std::mutex mutex;
  return mutex;
}

}  // namespace

std::string why_no_hdf5() { return hdf5_library().absent; }

std::vector<std::optional<Hdf5Array>> read_hdf5(const Path& path,
                                                const std::vector<std::string>& names) {
  const Hdf5Plugin& plugin = need_hdf5(path);
  const std::lock_guard lock(one_at_a_time());
  return plugin.read(path.string(), names);
}

void write_hdf5(const Path& path, const std::map<std::string, Hdf5Array>& arrays) {
  for (const auto& [name, array] : arrays) {
    std::int64_t count = 1;
    for (const std::int64_t side : array.shape) count *= side;
    TRIREME_CHECK(count == static_cast<std::int64_t>(array.values.size()),
                  "{}: {} values in a shape of {}", name, array.values.size(), count);
  }
  const Hdf5Plugin& plugin = need_hdf5(path);
  const std::lock_guard lock(one_at_a_time());
  plugin.write(path.string(), arrays);
}

}  // namespace trireme::media
