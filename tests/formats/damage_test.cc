// Every bit and every length of a checkpoint: what is not as it was written is refused, by name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/harness/memory_files.h"
#include "tests/harness/small_checkpoint.h"
#include "trireme/base/error.h"

namespace trireme::formats {
namespace {

using harness::MemoryFiles;
using harness::SmallCheckpoint;
using testing::HasSubstr;

const Path kStep = "/step-2";

class Damage : public testing::TestWithParam<std::int64_t> {
 protected:
  void SetUp() override {
    checkpoint_.elements = GetParam();
    checkpoint_.save(files_, "/", 2);
    ASSERT_TRUE(checkpoint_.intact(files_, kStep));
    ASSERT_EQ(files_.list(kStep, names_), 0);
    ASSERT_EQ(names_.size(), 3u);
  }

  std::string& bytes_of(const std::string& name) {
    return files_.disk().nodes.at(files_.disk().find(kStep / name)).bytes;
  }

  // Nothing where it is accepted.
  std::string refusal() {
    try {
      open_checkpoint(kStep, files_);
      return {};
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kData);
      return error.what();
    }
  }

  void every_bit() {
    for (const std::string& name : names_) {
      std::string& bytes = bytes_of(name);
      for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
        bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << (bit % 8)));
        ASSERT_THAT(refusal(), HasSubstr(name)) << "bit " << bit;
        bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << (bit % 8)));
      }
    }
    EXPECT_EQ(refusal(), "") << "as it was";
  }

  void every_length() {
    for (const std::string& name : names_) {
      const std::string whole = bytes_of(name);
      for (std::size_t size = 0; size < whole.size(); ++size) {
        bytes_of(name) = whole.substr(0, size);
        ASSERT_THAT(refusal(), HasSubstr(name)) << size;
      }
      bytes_of(name) = whole + '\0';
      EXPECT_THAT(refusal(), HasSubstr(name));
      bytes_of(name) = whole;
    }
    EXPECT_EQ(refusal(), "") << "as it was";
  }

  SmallCheckpoint checkpoint_;
  MemoryFiles files_;
  std::vector<std::string> names_;
};

TEST_P(Damage, OfAnyBitIsRefusedByName) { every_bit(); }
TEST_P(Damage, OfAnyLengthIsRefusedByName) { every_length(); }

INSTANTIATE_TEST_SUITE_P(Small, Damage, testing::Values(12));

// Blocks place damage: the bytes, the tensors in them, how much of the file.
TEST(DamageInLargeFiles, IsPlaced) {
  MemoryFiles files;
  const SmallCheckpoint checkpoint{.ranks = 1, .elements = 3 << 18};  // 3 MiB of each kind
  checkpoint.save(files, "/", 2);
  const auto refusal_of = [&](std::initializer_list<std::size_t> places) {
    MemoryFiles damaged(files.disk());
    for (const std::size_t place : places)
      damaged.disk().nodes.at(damaged.disk().find(kStep / "rank-0.safetensors")).bytes.at(place) ^=
          1;
    try {
      open_checkpoint(kStep, damaged);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  constexpr std::size_t kMib = 1 << 20;
  EXPECT_EQ(refusal_of({}), "");
  EXPECT_EQ(refusal_of({kMib + 5}),
            "/step-2/rank-0.safetensors: bytes 1048576 to 2097152 are not those that were written "
            "(tensor \"u.exp_avg\"); 1 of 7 blocks differ");
  EXPECT_THAT(refusal_of({3 * kMib, 4 * kMib + 1}),
              HasSubstr("bytes 3145728 to 4194304 are not those that were written (tensors "
                        "\"u.exp_avg\" to \"u.param\"); 2 of 7 blocks differ"));
  EXPECT_THAT(refusal_of({6 * kMib + 1}), HasSubstr("bytes 6291456 to 6291"));
  EXPECT_THAT(refusal_of({9}), HasSubstr("its header cannot be read"));
  EXPECT_THAT(refusal_of({kMib - 1}), HasSubstr("(the header and tensor \"u.exp_avg\")"));
}

}  // namespace
}  // namespace trireme::formats
