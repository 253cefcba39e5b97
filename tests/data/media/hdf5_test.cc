#include "trireme/data/media/hdf5.h"

#include <gmock/gmock.h>

#include "tests/data/media/pictures.h"
#include "tests/harness/scratch_directory.h"
#include "trireme/base/error.h"

#define TRIREME_NEEDS_HDF5() TRIREME_NEEDS("HDF5", why_no_hdf5())

namespace trireme::media::hdf5_test {
namespace {

const std::map<std::string, Hdf5Array> kArrays{
    {"observation/robot_state/cartesian_position", {{2, 3}, {1, 2, 3, 4, 5, 0.1}}},
    {"observation/robot_state/gripper_position", {{2}, {0, 1}}},
    {"action/rate", {{}, {15}}}};

TEST(Hdf5, ArraysComeBackByPath) {
  TRIREME_NEEDS_HDF5();
  const harness::ScratchDirectory scratch;
  write_hdf5(scratch / "a.h5", kArrays);
  const auto arrays = read_hdf5(
      scratch / "a.h5", {"observation/robot_state/cartesian_position", "action/rate", "no/such"});
  ASSERT_EQ(arrays.size(), 3u);
  EXPECT_EQ(arrays[0]->shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(arrays[0]->values, (std::vector<double>{1, 2, 3, 4, 5, 0.1}));
  EXPECT_EQ(arrays[1]->values, std::vector<double>{15});
  EXPECT_FALSE(arrays[2].has_value());
}

TEST(Hdf5, EqualArraysGiveEqualBytes) {
  TRIREME_NEEDS_HDF5();
  const harness::ScratchDirectory scratch;
  write_hdf5(scratch / "a.h5", kArrays);
  write_hdf5(scratch / "b.h5", kArrays);
  EXPECT_EQ(read_file(scratch / "a.h5"), read_file(scratch / "b.h5"));
  EXPECT_THROW(write_hdf5(scratch / "a.h5", kArrays), Error);  // exists
}

TEST(Hdf5, WhatIsNoneIsRefusedByName) {
  TRIREME_NEEDS_HDF5();
  const harness::ScratchDirectory scratch;
  write_hdf5(scratch / "a.h5", kArrays);
  const auto refused = [](const Path& path, const std::string& name) -> std::string {
    try {
      read_hdf5(path, {name});
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kData);
      return error.what();
    }
    return "taken";
  };
  const std::string bytes = read_file(scratch / "a.h5");
  EXPECT_THAT(refused(scratch.write("half.h5", bytes.substr(0, bytes.size() / 2)), "action/rate"),
              testing::HasSubstr("half.h5: missing, damaged"));
  EXPECT_THAT(refused(scratch / "a.h5", "observation"), testing::HasSubstr("is no array"));
}

}  // namespace
}  // namespace trireme::media::hdf5_test
