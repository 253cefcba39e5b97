// HDF5 files: the plug-in behind trireme/data/media/hdf5.h.
#include "trireme/data/media/hdf5.h"

#include <hdf5.h>

#include "trireme/base/error.h"

namespace trireme::media {
namespace {

// An identifier of the library and what gives it back.
class Handle {
 public:
  Handle(hid_t id, herr_t (*close)(hid_t)) : id_(id), close_(close) {}
  ~Handle() {
    if (id_ >= 0) close_(id_);
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  hid_t get() const { return id_; }
  bool valid() const { return id_ >= 0; }

 private:
  hid_t id_;
  herr_t (*close_)(hid_t);
};

// Whether every step of the path is there: the library takes a missing one before the last for an error.
bool has_path(hid_t file, const std::string& name) {
  for (std::size_t at = name.find('/', 1); at != name.npos; at = name.find('/', at + 1))
    if (H5Lexists(file, name.substr(0, at).c_str(), H5P_DEFAULT) <= 0) return false;
  return H5Lexists(file, name.c_str(), H5P_DEFAULT) > 0;
}

Hdf5Array read_array(hid_t file, const std::string& path, const std::string& name) {
  constexpr std::int64_t kMost = std::int64_t{1} << 26;
  const auto refuse = [&](const char* why) {
    fail(ErrorKind::kData, "{}: {} {}", path, name, why);
  };
  const Handle set(H5Dopen2(file, name.c_str(), H5P_DEFAULT), H5Dclose);
  if (!set.valid()) refuse("is no array, or damaged");
  const Handle type(H5Dget_type(set.get()), H5Tclose);
  const H5T_class_t kind = type.valid() ? H5Tget_class(type.get()) : H5T_NO_CLASS;
  if (kind != H5T_FLOAT && kind != H5T_INTEGER) refuse("has no numbers");
  const Handle space(H5Dget_space(set.get()), H5Sclose);
  const int dims = space.valid() ? H5Sget_simple_extent_ndims(space.get()) : -1;
  if (dims < 0) refuse("has no shape");
  std::vector<hsize_t> sides(static_cast<std::size_t>(dims));
  H5Sget_simple_extent_dims(space.get(), sides.data(), nullptr);
  Hdf5Array array;
  std::int64_t count = 1;
  for (const hsize_t side : sides) {
    if (side > static_cast<hsize_t>(kMost) || count * static_cast<std::int64_t>(side) > kMost)
      refuse("has more than 67108864 numbers");
    array.shape.push_back(static_cast<std::int64_t>(side));
    count *= static_cast<std::int64_t>(side);
  }
  array.values.resize(static_cast<std::size_t>(count));
  if (H5Dread(set.get(), H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, array.values.data()) < 0)
    refuse("cannot be read: damaged or truncated");
  return array;
}

// Errors are ours to tell. Threads have handlers of their own, which print.
void be_quiet() { H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr); }

std::vector<std::optional<Hdf5Array>> read_file(const std::string& path,
                                                const std::vector<std::string>& names) {
  be_quiet();
  const Handle file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose);
  if (!file.valid()) fail(ErrorKind::kData, "{}: missing, damaged, or no HDF5 file", path);
  std::vector<std::optional<Hdf5Array>> arrays;
  for (const std::string& name : names) {
    arrays.emplace_back();
    if (has_path(file.get(), name)) arrays.back() = read_array(file.get(), path, name);
  }
  return arrays;
}

void write_array(hid_t file, const std::string& path, const std::string& name,
                 const Hdf5Array& array) {
  const std::vector<hsize_t> sides(array.shape.begin(), array.shape.end());
  const Handle space(sides.empty()
                         ? H5Screate(H5S_SCALAR)
                         : H5Screate_simple(static_cast<int>(sides.size()), sides.data(), nullptr),
                     H5Sclose);
  const Handle links(H5Pcreate(H5P_LINK_CREATE), H5Pclose);
  H5Pset_create_intermediate_group(links.get(), 1);
  const Handle creation(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  H5Pset_obj_track_times(creation.get(), false);
  const Handle set(H5Dcreate2(file, name.c_str(), H5T_IEEE_F64LE, space.get(), links.get(),
                              creation.get(), H5P_DEFAULT),
                   H5Dclose);
  if (!set.valid() || H5Dwrite(set.get(), H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT,
                               array.values.data()) < 0)
    fail(ErrorKind::kData, "{}: {} cannot be written", path, name);
}

void write_file(const std::string& path, const std::map<std::string, Hdf5Array>& arrays) {
  be_quiet();
  const Handle file(H5Fcreate(path.c_str(), H5F_ACC_EXCL, H5P_DEFAULT, H5P_DEFAULT), H5Fclose);
  if (!file.valid()) fail(ErrorKind::kData, "{}: exists, or cannot be written", path);
  for (const auto& [name, array] : arrays) write_array(file.get(), path, name, array);
  if (H5Fflush(file.get(), H5F_SCOPE_GLOBAL) < 0)
    fail(ErrorKind::kData, "{}: cannot be written", path);
}

}  // namespace
}  // namespace trireme::media

extern "C" __attribute__((visibility("default"))) const trireme::media::Hdf5Plugin* trireme_hdf5() {
  static const trireme::media::Hdf5Plugin plugin{trireme::media::read_file,
                                                 trireme::media::write_file};
  return &plugin;
}
