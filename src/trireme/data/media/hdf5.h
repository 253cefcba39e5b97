// HDF5 files, as robot trajectories have them: arrays of numbers by path. By a plug-in, loaded at the first file.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "trireme/base/fs.h"

namespace trireme::media {

struct Hdf5Array {
  std::vector<std::int64_t> shape;  // empty: a scalar
  std::vector<double> values;       // in C order
};

// The arrays of these paths ("observation/robot_state/gripper_position"), whatever number type they have; empty where
// the file has no such path. The library is not thread-safe: calls wait for each other. Throws Error{kData} naming the
// file if it is no HDF5 file, is damaged, or has no array of numbers there (at most 2^26 of them). Throws Error{kUsage}
// naming the package if the plug-in was not built.
std::vector<std::optional<Hdf5Array>> read_hdf5(const Path& path,
                                                const std::vector<std::string>& names);

// A new file with these arrays as 64-bit floats; equal arrays give equal bytes. Throws Error{kData}, Error{kUsage} as above.
void write_hdf5(const Path& path, const std::map<std::string, Hdf5Array>& arrays);

// Why HDF5 files cannot be read or written here; empty where they can.
std::string why_no_hdf5();

// Functions of the plug-in plugins/hdf5; its function `trireme_hdf5` returns one that stays.
struct Hdf5Plugin {
  std::vector<std::optional<Hdf5Array>> (*read)(const std::string& path,
                                                const std::vector<std::string>& names);
  void (*write)(const std::string& path, const std::map<std::string, Hdf5Array>& arrays);
};

}  // namespace trireme::media
