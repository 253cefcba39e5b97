#include "trireme/data/media/npz.h"

#include <gmock/gmock.h>

#include "tests/data/media/pictures.h"
#include "trireme/base/error.h"

namespace trireme::media::npz_test {
namespace {

std::string npy(const std::string& type, const std::string& shape, const std::string& values) {
  std::string header =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}", type, shape);
  header += '\n';
  std::string file("\x93NUMPY\x01\x00", 8);
  file += static_cast<char>(header.size());
  file += '\0';
  return file + header + values;
}

std::string npy_refusal(const std::string& bytes) {
  try {
    parse_npy(bytes_of(bytes), "a.npy");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kData);
    return error.what();
  }
  return "taken";
}

TEST(Npy, HeadersSayTypeAndShape) {
  const std::string file = npy("|u1", "(2, 3)", "abcdef");
  const NpyArray array = parse_npy(bytes_of(file), "a.npy");
  EXPECT_EQ(array.shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(array.values(), (std::vector<double>{'a', 'b', 'c', 'd', 'e', 'f'}));
  const std::string scalar = npy("<f4", "()", std::string("\0\0\x80\x3f", 4));
  EXPECT_EQ(parse_npy(bytes_of(scalar), "a.npy").values(), std::vector<double>{1});
}

TEST(Npy, WhatCannotBeIsRefused) {
  using testing::HasSubstr;
  EXPECT_THAT(npy_refusal(npy("|u1", "(2, 4)", "abcdef")), HasSubstr("a.npy: truncated"));
  EXPECT_THAT(npy_refusal(npy("<i8", "(1,)", "12345678")), HasSubstr("type '<i8'"));
  EXPECT_THAT(npy_refusal(npy("|u1", "(4294967296, 4294967296)", "")),
              HasSubstr("beyond counting"));
  EXPECT_THAT(npy_refusal("no array"), HasSubstr("no npy array"));
}

TEST(Npz, ATrajectoryOfArmsIsRead) {
  TRIREME_NEEDS_REAL_FILE(path, "franka_example_traj.npz");
  const MappedFile file(path);
  const auto arrays = parse_npz(file.bytes(), "franka");
  const NpyArray& states = arrays.at("states");
  EXPECT_EQ(arrays.at("observations").shape, (std::vector<std::int64_t>{1, 2, 256, 256, 3}));
  EXPECT_EQ(states.shape, (std::vector<std::int64_t>{1, 2, 7}));
  EXPECT_EQ(states.values().size(), 14u);
  EXPECT_THROW(parse_npz(file.bytes().first(1000), "franka"), Error);
}

}  // namespace
}  // namespace trireme::media::npz_test
