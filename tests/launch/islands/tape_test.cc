#include "trireme/launch/islands/tape.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "tests/formats/scratch.h"
#include "trireme/base/error.h"
#include "trireme/base/hash.h"
#include "trireme/launch/islands/messages.h"
#include "trireme/launch/islands/source.h"

namespace trireme::islands::tape_test {
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

Recipe recipe() {
  return {.text = "lr 0.7",
          .fragments = 2,
          .codec = codec::parse("q8"),
          .back = codec::parse("q8"),
          .units = {{.name = "a",
                     .numel = 1000,
                     .fragment = 0,
                     .coded = true,
                     .block = 256,
                     .back_block = 256},
                    {.name = "b", .numel = 10, .fragment = 0},
                    {.name = "c", .numel = 5, .fragment = 1}}};
}

std::vector<std::byte> floats(const std::vector<float>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(float));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

// A tape with one merge of fragment 1: islands 0 and 2, of weights 1 and 3.
Path write_tape(const Path& directory) {
  Tape tape(directory);
  tape.keep(recipe());
  tape.append({.kind = Entry::Kind::kTerm, .term = 1});
  tape.append({.kind = Entry::Kind::kJoin, .term = 1, .island = 0, .run = "r", .job = "a: 1\n"});
  const std::vector<std::byte> first = floats({1, 2, 3, 4, 5}), second = floats({5, 6, 7, 8, 9});
  const std::vector<Codes> codes = {{.island = 0, .weight = 1, .bytes = first},
                                    {.island = 2, .weight = 3, .bytes = second}};
  const std::vector<std::byte> mean = merge(recipe(), 1, 0, codes);
  EXPECT_EQ(mean, floats({4, 5, 6, 7, 8}));
  tape.keep_codes(2, 0, first);
  tape.keep_codes(2, 2, second);
  tape.keep_mean(2, mean);
  tape.append(
      {.kind = Entry::Kind::kMerge,
       .term = 1,
       .fragment = 1,
       .from = {{.island = 0,
                 .run = "r",
                 .step = 7,
                 .weight = 1,
                 .digest = hash64(first),
                 .applied = {{0, 4}}},
                {.island = 2, .run = "s", .step = 9, .weight = 3, .digest = hash64(second)}},
       .mean = hash64(mean)});
  return directory;
}

TEST(IslandsTape, IsReadAsItWasWritten) {
  const formats::Scratch scratch;
  const Path directory = write_tape(scratch / "tape");
  const Tape tape = Tape::open(directory);
  ASSERT_EQ(tape.size(), 3);
  EXPECT_EQ(tape.recipe(), recipe());
  EXPECT_EQ(tape.entries()[1].job, "a: 1\n");
  EXPECT_EQ(tape.entries()[2].from[0].applied, (std::vector<Applied>{{0, 4}}));
  EXPECT_EQ(tape.mean(2), floats({4, 5, 6, 7, 8}));
  EXPECT_EQ(verify(tape), 1);
  const std::vector<Segment> segments = segments_of(tape.entries());
  ASSERT_EQ(segments.size(), 1u);
  EXPECT_EQ(segments[0].last, 7);
}

TEST(IslandsTape, ALineThatIsNotCompleteWasNeverWritten) {
  const formats::Scratch scratch;
  const Path directory = write_tape(scratch / "tape");
  const Path file = directory / Tape::kName;
  std::string text = read_file(file);
  scratch.write("tape/tape.jsonl", text + "{\"format\":");
  Tape tape(directory);
  EXPECT_EQ(tape.size(), 3);
  tape.append({.kind = Entry::Kind::kTerm, .term = 2});
  EXPECT_EQ(Tape::open(directory).size(), 4);
}

TEST(IslandsTape, DamageIsNamed) {
  const formats::Scratch scratch;
  const Path directory = write_tape(scratch / "tape");
  const std::string text = read_file(directory / Tape::kName);
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string other = text;
    other.replace(other.find(from), from.size(), to);
    scratch.write("tape/tape.jsonl", other);
    return error_of([&] { verify(Tape::open(directory)); });
  };
  EXPECT_THAT(with("\"version\":2", "\"version\":9"), HasSubstr("version"));
  EXPECT_THAT(with("\"kind\":\"join\"", "\"kind\":\"jump\""), HasSubstr("unknown kind \"jump\""));
  EXPECT_THAT(with("\"job\":\"a: 1", "\"job\":\"a: 2"), HasSubstr("follows another entry"));
  EXPECT_THAT(with("\"weight\":3.0", "\"weight\":2.0"), HasSubstr("merges fragment 1 of round 0"));
  scratch.write("tape/tape.jsonl", text);
  scratch.write("tape/2.island0", std::string(20, 'x'));
  EXPECT_THAT(error_of([&] { verify(Tape::open(directory)); }), HasSubstr("its digest is"));
}

TEST(IslandsMerge, PartsOfRanksTileAFragment) {
  const Recipe of = recipe();
  // Codes of unit a: 4 blocks of 258 bytes. Two ranks split it, the first has b.
  const std::vector<Part> first = {{.unit = 0, .begin = 0, .count = 512, .sends = true},
                                   {.unit = 1, .begin = 0, .count = 10, .sends = true}};
  const std::vector<Part> second = {{.unit = 0, .begin = 512, .count = 512, .sends = true},
                                    {.unit = 1, .begin = 0, .count = 10, .sends = false}};
  const auto a = places(of, first, 0, Way::kDifference),
             b = places(of, second, 0, Way::kDifference);
  EXPECT_EQ(of.bytes(0, Way::kDifference), 4 * 258 + 40);
  EXPECT_EQ(total(a) + total(b), of.bytes(0, Way::kDifference));
  ASSERT_EQ(b.size(), 1u);
  EXPECT_EQ(b[0].offset, 516);
  EXPECT_EQ(total(places(of, second, 0, Way::kMean)), 516 + 40);
  EXPECT_TRUE(places(of, first, 1, Way::kMean).empty());
}

TEST(IslandsMerge, EqualCodesHaveThemselvesAsMean) {
  const Recipe of = recipe();
  std::vector<float> values(1024);
  for (std::size_t i = 0; i < 1000; ++i) values[i] = static_cast<float>(i % 13) - 6;
  std::vector<std::byte> codes(static_cast<std::size_t>(of.bytes(0, Way::kDifference)));
  codec::encode(*of.codec, {.block = 256, .first = 0, .real = 1000}, {}, values,
                std::span(codes).first(4 * 258));
  const std::vector<Codes> two = {{.island = 1, .weight = 5, .bytes = codes},
                                  {.island = 3, .weight = 5, .bytes = codes}};
  EXPECT_EQ(merge(of, 0, 3, two), codes);
}

TEST(IslandsMessages, AreReadAsTheyWereWritten) {
  const std::vector<Message> all = {
      Hello{.island = 1,
            .islands = 3,
            .run = "r",
            .rank = 1,
            .ranks = 2,
            .step = 4,
            .position = 5,
            .line = 9,
            .copied = 6,
            .copied_line = 7,
            .term = 3,
            .applied = {{1, 2}},
            .resumes = "q",
            .state = 11,
            .recipe = recipe(),
            .parts = {{.unit = 0, .begin = 256, .count = 768, .sends = true}},
            .machine = "m",
            .job = "j"},
      Offer{.fragment = 1,
            .round = 2,
            .step = 3,
            .weight = 4,
            .step_s = 0.5,
            .bytes = 6,
            .digest = 7,
            .applied = {{8, 9}}},
      Want{.key = 1, .from = 2},
      Have{.entries = 3},
      News{.index = 1, .line = "{}", .bytes = 2, .digest = 3},
      Welcome{.entries = 4, .term = 2, .copied = 1},
      Seek{.island = 1, .step = 2, .position = 3},
      State{.key = kStateKey | 5,
            .island = 1,
            .step = 2,
            .position = 3,
            .line = 4,
            .job = "j",
            .dataset = "d",
            .files = {{"manifest.json", 6}}},
      Fetch{.key = kStateKey | 5, .from = 6, .count = 7},
      Refusal{.why = "w"},
      Leave{.step = 5, .applied = {{6, 7}}}};
  for (const Message& message : all) EXPECT_EQ(parse_message(print(message)), message);
  std::string newer = print(all[3]);
  newer.replace(newer.find("\"version\":3"), 11, "\"version\":4");
  EXPECT_THAT(error_of([&] { parse_message(newer); }), HasSubstr("one version of Trireme"));
  std::string outside = print(all[0]);
  outside.replace(outside.find("[0,256,768,1]"), 13, "[0,256,900,1]");
  EXPECT_NE(error_of([&] { parse_message(outside); }), "");
}

TEST(IslandsMessages, PiecesResumeAfterACutAndRefuseDamage) {
  std::vector<std::byte> bytes(3 * static_cast<std::size_t>(kPiece) - 100);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 7 + i / 999);
  Arriving arriving(std::ssize(bytes), hash64(std::span<const std::byte>(bytes)));
  EXPECT_TRUE(arriving.take(piece_of(5, 0, bytes)));
  EXPECT_FALSE(arriving.take(piece_of(5, 2, bytes)));  // one was lost with the connection
  std::string damaged = piece_of(5, 1, bytes);
  damaged.back() ^= 1;
  EXPECT_FALSE(arriving.take(damaged));
  EXPECT_EQ(arriving.pieces(), 1);
  EXPECT_EQ(key_of(damaged), 5u);
  EXPECT_TRUE(arriving.take(piece_of(5, 1, bytes)));
  EXPECT_TRUE(arriving.take(piece_of(5, 2, bytes)));
  EXPECT_TRUE(arriving.check());
  EXPECT_EQ(arriving.bytes(), bytes);
}

}  // namespace
}  // namespace trireme::islands::tape_test
