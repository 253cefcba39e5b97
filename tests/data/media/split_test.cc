#include "trireme/data/media/split.h"

#include <gmock/gmock.h>

#include <set>

#include "tests/data/media/pictures.h"
#include "tests/harness/scratch_directory.h"
#include "trireme/base/error.h"

namespace trireme::media::split_test {
namespace {

using testing::HasSubstr;

void write_pictures(const harness::ScratchDirectory& scratch, const std::string& folder,
                    int count) {
  for (int i = 0; i < count; ++i)
    scratch.write(folder + "/" + std::to_string(i) + ".png", encode_png(gradient(8, 8, i)));
}

TEST(Split, HoldsOutAFractionByNumber) {
  const harness::ScratchDirectory scratch;
  write_pictures(scratch, "a", 100);
  write_pictures(scratch, "b", 100);
  const Split fifth = open_split("images", scratch.path(), 0.2);
  EXPECT_NEAR(static_cast<double>(fifth.held_out.numbers.size()), 40, 15);
  std::set<std::int64_t> all(fifth.train.numbers.begin(), fifth.train.numbers.end());
  all.insert(fifth.held_out.numbers.begin(), fifth.held_out.numbers.end());
  EXPECT_EQ(all.size(), 200U);
  EXPECT_EQ(fifth.train.numbers.size() + fifth.held_out.numbers.size(), 200U);
  // What a smaller fraction holds out a larger one does too.
  const Split tenth = open_split("images", scratch.path(), 0.1);
  for (const std::int64_t number : tenth.held_out.numbers)
    EXPECT_THAT(fifth.held_out.numbers, testing::Contains(number));
  EXPECT_TRUE(open_split("images", scratch.path(), 0).held_out.numbers.empty());
}

TEST(Split, TakesThePartsThatAreThere) {
  const harness::ScratchDirectory scratch;
  for (const char* folder : {"train/a", "train/b", "val/a", "val/b"})
    write_pictures(scratch, folder, folder[0] == 't' ? 5 : 2);
  const Split split = open_split("images", scratch.path(), 0.1);
  EXPECT_EQ(split.train.numbers.size(), 10U);
  EXPECT_EQ(split.held_out.numbers.size(), 4U);
  EXPECT_NE(split.train.samples, split.held_out.samples);
  write_pictures(scratch, "val/c", 1);
  EXPECT_THROW(open_split("images", scratch.path(), 0.1), Error);
}

TEST(Split, HoldsOutANumberOfSamples) {
  const harness::ScratchDirectory scratch;
  write_pictures(scratch, "a", 30);
  const Split ten = open_split("images", scratch.path(), 10),
              one = open_split("images", scratch.path(), 1);
  EXPECT_EQ(ten.held_out.numbers.size(), 10U);
  EXPECT_EQ(ten.train.numbers.size(), 20U);
  ASSERT_EQ(one.held_out.numbers.size(), 1U);
  EXPECT_THAT(ten.held_out.numbers, testing::Contains(one.held_out.numbers[0]));
  EXPECT_THAT([&] { open_split("images", scratch.path(), 30); },
              testing::ThrowsMessage<Error>(HasSubstr("which has 30 and needs one to train on")));
}

TEST(Split, HoldsOutANumberOfSamplesOfThePartThatIsThere) {
  const harness::ScratchDirectory scratch;
  write_pictures(scratch, "train/a", 5);
  write_pictures(scratch, "val/a", 4);
  EXPECT_EQ(open_split("images", scratch.path(), 3).held_out.numbers.size(), 3U);
  EXPECT_EQ(open_split("images", scratch.path(), 3).train.numbers.size(), 5U);
  EXPECT_EQ(open_split("images", scratch.path(), 4).held_out.numbers.size(), 4U);
  EXPECT_THAT([&] { open_split("images", scratch.path(), 5); },
              testing::ThrowsMessage<Error>(HasSubstr("data.validation=5 samples to hold out")));
}

TEST(Split, OfFewSamplesHoldsOutOne) {
  const harness::ScratchDirectory scratch;
  write_pictures(scratch, "a", 2);
  const Split split = open_split("images", scratch.path(), 1e-9);
  EXPECT_EQ(split.train.numbers.size(), 1U);
  EXPECT_EQ(split.held_out.numbers.size(), 1U);
}

TEST(Split, RefusesAnotherKind) {
  const harness::ScratchDirectory scratch;
  const Path list = scratch.write("list.csv", "a.mp4 0\nb.mp4 1\n");
  try {
    open_split("trajectories", list, 0.1);
    ADD_FAILURE() << "taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kData);
    EXPECT_THAT(error.what(), HasSubstr("data.source=trajectories"));
  }
}

}  // namespace
}  // namespace trireme::media::split_test
