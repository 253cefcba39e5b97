// What islands keep and hand over: copies of the tape, and states in chunks.
#include "trireme/launch/islands/copies.h"

#include <gmock/gmock.h>

#include <cstring>
#include <random>

#include "tests/formats/scratch.h"
#include "trireme/base/error.h"
#include "trireme/base/hash.h"
#include "trireme/launch/islands/state.h"

namespace trireme::islands::copies_test {
namespace {

using ::testing::HasSubstr;

template <typename Do>
std::string error_of(const Do& what) {
  try {
    what();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::vector<std::byte> floats(const std::vector<float>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(float));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

const Recipe kRecipe = {.text = "lr 0.7", .units = {{.name = "a", .numel = 3}}};

// A leader's tape of three islands with `merges` merges of islands 0 and 1, which have their copies. The copy of island 2
// ends one entry earlier.
class Copies : public ::testing::Test {
 protected:
  void write(int merges) {
    Tape tape(scratch_ / "tape");
    tape.keep(kRecipe);
    tape.append({.kind = Entry::Kind::kTerm, .term = 1});
    for (const int island : {0, 1, 2})
      tape.append({.kind = Entry::Kind::kJoin, .term = 1, .island = island, .run = "r"});
    for (int round = 0; round < merges; ++round) {
      const float at = static_cast<float>(round);
      const std::vector<std::byte> codes[2] = {floats({1, at, 3}), floats({3, at, 5})};
      const std::vector<Codes> both = {{.island = 0, .bytes = codes[0]},
                                       {.island = 1, .bytes = codes[1]}};
      const std::vector<std::byte> mean = merge(kRecipe, 0, round, both);
      Entry entry{.kind = Entry::Kind::kMerge, .term = 1, .round = round, .mean = hash64(mean)};
      for (const int island : {0, 1}) {
        entry.from.push_back(
            {.island = island, .run = "r", .weight = 1, .digest = hash64(codes[island])});
        tape.keep_codes(tape.size(), island, codes[island]);
        make_directories(copy(island));
        const Place halves[] = {{.offset = 0, .bytes = 4}, {.offset = 4, .bytes = 8}};
        write_parts(Tape::blob(copy(island), tape.size(), Tape::codes_name(island)), 12, halves,
                    codes[island]);
      }
      tape.keep_mean(tape.size(), mean);
      tape.append(entry);
    }
    for (const int island : {0, 1, 2}) {
      Tape copy(this->copy(island));
      copy.keep(kRecipe);
      copy.keep_owner(island);
      for (std::int64_t i = 0; i + (island == 2) < tape.size(); ++i) copy.append_line(tape.line(i));
    }
  }
  Path copy(int island) const { return scratch_ / ("island" + std::to_string(island)); }

  formats::Scratch scratch_;
};

TEST_F(Copies, OfAMajorityAreTheTapeWithItsBytes) {
  write(4);
  const Restored restored = restore({copy(2), copy(0), copy(1)}, scratch_ / "new");
  EXPECT_EQ(restored.from, copy(0));
  EXPECT_EQ(restored.entries, 8);
  EXPECT_EQ(restored.members, 3);
  EXPECT_TRUE(restored.no_codes.empty());
  EXPECT_EQ(restored.no_means, 0);  // computed again, since no copy has them
  EXPECT_EQ(read_file(scratch_ / "new/tape.jsonl"), read_file(scratch_ / "tape/tape.jsonl"));
  EXPECT_EQ(verify(Tape::open(scratch_ / "new")), 4);
}

TEST_F(Copies, WhatIsMissingIsNamed) {
  write(2);
  const Restored restored = restore({copy(0), copy(2)}, scratch_ / "new");
  EXPECT_EQ(restored.no_codes, (std::map<int, std::int64_t>{{1, 2}}));
  EXPECT_EQ(restored.no_means, 2);
  EXPECT_THAT(error_of([&] {
                restore({copy(0), copy(2)}, scratch_ / "new");
              }),
              HasSubstr("has a tape already"));
  EXPECT_THAT(error_of([&] {
                restore({copy(1), copy(1)}, scratch_ / "more");
              }),
              HasSubstr("copies of 1 of 3 islands"));
  EXPECT_THAT(error_of([&] { restore({scratch_ / "tape"}, scratch_ / "more"); }),
              HasSubstr("is no copy of an island"));
  EXPECT_THAT(error_of([&] { restore({scratch_ / "none"}, scratch_ / "more"); }),
              HasSubstr("has no tape.jsonl"));
}

// The last merge was not on a majority of disks and lacks codes: it is not part of the tape, and is merged again.
TEST_F(Copies, AMergeThatNobodyHasAppliedIsLeftOut) {
  write(3);
  std::filesystem::remove(Tape::blob(copy(1), 6, Tape::codes_name(1)));
  Tape(copy(1)).cut(6);
  const Restored restored = restore({copy(0), copy(1), copy(2)}, scratch_ / "new");
  EXPECT_EQ(restored.entries, 6);
  EXPECT_TRUE(restored.no_codes.empty());
  EXPECT_EQ(verify(Tape::open(scratch_ / "new")), 2);
}

// Entries of term 1 that the new leader did not know give way to those of term 2, which is then what counts.
TEST_F(Copies, TheNewestTermIsLongerThanTheLongestCopy) {
  write(3);
  Tape second(copy(2));
  second.cut(4);
  EXPECT_EQ(second.size(), 4);
  second.append({.kind = Entry::Kind::kTerm, .term = 2});
  const Restored restored = restore({copy(0), copy(2)}, scratch_ / "new");
  EXPECT_EQ(restored.from, copy(2));
  EXPECT_EQ(Tape::open(scratch_ / "new").entries().back().term, 2);
  EXPECT_EQ(Tape::open(copy(2)).size(), 5);
}

// Chunks that are lost, damaged or twice, and a restart of the taker, under many seeds.
TEST(IslandsState, ArrivesInChunksOfAnySeed) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    std::mt19937 random(seed);
    const formats::Scratch scratch;
    State about{.key = kStateKey | seed, .island = 1};
    make_directories(scratch / "from");
    for (int i = 0; i < 4; ++i) {
      std::string text(random() % (3 * static_cast<std::size_t>(kPiece) / 2), '\0');
      for (std::size_t at = 0; at < text.size(); at += 997) text[at] = static_cast<char>(random());
      about.files.push_back({"file" + std::to_string(i), std::ssize(text)});
      scratch.write("from/file" + std::to_string(i), text);
    }
    const StateFiles from(scratch / "from", about, StateFiles::For::kReading);
    make_directories(scratch / "to");
    std::optional<StateFiles> to(std::in_place, scratch / "to", about, StateFiles::For::kWriting);
    while (!to->complete()) {
      const std::int64_t before = to->pieces();
      std::string frame = from.piece(before);
      const unsigned weather = random() % 4;
      if (weather == 0) frame.back() ^= 1;
      if (weather == 1 && before > 0) frame = from.piece(before - 1);
      EXPECT_EQ(to->take(frame), weather > 1 || (weather == 1 && before == 0));
      if (weather == 2) {
        to.reset();
        to.emplace(scratch / "to", about, StateFiles::For::kWriting);
        EXPECT_EQ(to->pieces(), before + 1) << seed;
      }
    }
    for (const StateFile& file : about.files)
      EXPECT_EQ(read_file(scratch / "to" / file.name), read_file(scratch / "from" / file.name));
  }
}

}  // namespace
}  // namespace trireme::islands::copies_test
