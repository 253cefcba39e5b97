#include "trireme/data/media/tar.h"

#include <gmock/gmock.h>

#include <cstring>

#include "tests/data/media/pictures.h"
#include "tests/harness/scratch_directory.h"
#include "trireme/base/clock.h"
#include "trireme/base/error.h"
#include "trireme/data/media/tar_header.h"

namespace trireme::media::tar_test {
namespace {

using testing::HasSubstr;

std::string archive(const std::vector<std::pair<std::string, std::string>>& members) {
  const harness::ScratchDirectory scratch;
  TarWriter writer(scratch / "a.tar");
  for (const auto& [name, bytes] : members) writer.add(name, bytes);
  writer.finish();
  return read_file(scratch / "a.tar");
}

template <typename Body>
std::string shard_refusal(const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kData);
    return error.what();
  }
  return "taken";
}

std::string text_at(const std::string& tar, std::uint64_t offset, std::uint64_t size) {
  return tar.substr(offset, size);
}

// A header of another kind than ours write, with its body.
std::string extension_member(char type, const std::string& body) {
  std::string member = archive({{"x", body}});
  member.resize(member.size() - 2 * kTarBlock);
  member[kType.at] = type;
  const std::string sum = fmt::format("{:06o}", header_checksum(member.data()));
  std::memcpy(member.data() + kChecksum.at, sum.data(), sum.size());
  return member;
}

// In quadratic time this took 17 s on an idle core, and a frame of a clip was found by looking at all of them.
TEST(Tar, ManyPartsOfOneSampleAreReadInTheTimeOfTheirNumber) {
  constexpr int kParts = 39000;
  std::string tar;
  const std::string one = archive({{"clip.00000.png", ""}});
  for (int i = 0; i < kParts; ++i) {
    std::string header = one.substr(0, kTarBlock);
    std::memcpy(header.data(), fmt::format("clip.{:05}.png", i).data(), 14);
    const std::string sum = fmt::format("{:06o}", header_checksum(header.data()));
    std::memcpy(header.data() + kChecksum.at, sum.data(), sum.size());
    tar += header;
  }
  tar += std::string(2 * kTarBlock, '\0');
  const Stopwatch watch;
  const auto samples = parse_shard(bytes_of(tar), "a.tar");
  ASSERT_EQ(samples.size(), 1u);
  ASSERT_EQ(samples[0].parts.size(), static_cast<std::size_t>(kParts));
  for (const ShardSample::Part& part : samples[0].parts)
    EXPECT_EQ(samples[0].find(part.extension), &part);
  EXPECT_EQ(samples[0].find("png"), nullptr);
  EXPECT_LT(watch.seconds(), 5);
}

TEST(Tar, MembersComeBack) {
  const std::string big(1300, 'b');
  const std::string tar = archive({{"a.txt", "first"}, {"dir/b.bin", big}, {"empty", ""}});
  EXPECT_EQ(tar.size() % kTarBlock, 0u);
  const auto members = parse_tar(bytes_of(tar), "a.tar");
  ASSERT_EQ(members.size(), 3u);
  EXPECT_EQ(members[1].name, "dir/b.bin");
  EXPECT_EQ(text_at(tar, members[0].offset, members[0].size), "first");
  EXPECT_EQ(text_at(tar, members[1].offset, members[1].size), big);
  EXPECT_EQ(members[2].size, 0u);
  EXPECT_EQ(archive({{"a.txt", "first"}, {"dir/b.bin", big}, {"empty", ""}}), tar);
}

TEST(Tar, LongNamesOfEveryKindAreRead) {
  const std::string long_name = std::string(90, 'd') + "/" + std::string(90, 'n') + ".jpg";
  EXPECT_EQ(parse_tar(bytes_of(archive({{long_name, "x"}})), "a").at(0).name, long_name);
  const std::string longer = std::string(300, 'n') + ".jpg";
  EXPECT_THROW(archive({{longer, "x"}}), Error);
  const std::string gnu = extension_member('L', longer + '\0') + archive({{"short", "x"}});
  EXPECT_EQ(parse_tar(bytes_of(gnu), "a").at(0).name, longer);
  const std::string record = " path=" + longer + "\n";
  const std::string pax = extension_member('x', std::to_string(record.size() + 3) + record) +
                          archive({{"short", "x"}, {"second", "y"}});
  const auto members = parse_tar(bytes_of(pax), "a");
  EXPECT_EQ(members.at(0).name, longer);
  EXPECT_EQ(members.at(1).name, "second");
}

TEST(Tar, WhatOtherProgramsWriteIsRead) {
  const harness::ScratchDirectory scratch;
  scratch.write("in/a.txt", "first");
  scratch.write("in/b.txt", std::string(70000, 'b'));
  for (const char* format : {"ustar", "gnu", "pax"}) {
    const std::string out = (scratch / format).string();
    ASSERT_EQ(std::system(fmt::format("tar --format={} -C {} -cf {} in", format,
                                      scratch.path().string(), out)
                              .c_str()),
              0);
    auto members = parse_tar(bytes_of(read_file(out)), format);
    std::sort(members.begin(), members.end(), [](auto& a, auto& b) { return a.name < b.name; });
    ASSERT_EQ(members.size(), 2u) << format;
    EXPECT_EQ(members[0].name, "in/a.txt");
    EXPECT_EQ(members[1].size, 70000u);
  }
}

TEST(Tar, TruncatedOrCorruptIsRefusedByName) {
  const std::string tar = archive({{"a.txt", "first"}, {"b.txt", std::string(2000, 'b')}});
  const auto refused = [](const std::string& bytes) {
    return shard_refusal([&] { parse_tar(bytes_of(bytes), "a.tar"); });
  };
  EXPECT_THAT(refused(tar.substr(0, tar.size() - 2 * kTarBlock)),
              HasSubstr("a.tar: a tar without its end"));
  EXPECT_THAT(refused(tar.substr(0, 2000)), HasSubstr("a.tar: truncated in member b.txt"));
  EXPECT_THAT(refused(tar.substr(0, 700)), HasSubstr("without its end"));
  std::string broken = tar;
  broken[1024 + 3] ^= 1;
  EXPECT_THAT(refused(broken), HasSubstr("no tar header at byte 1024"));
  EXPECT_THAT(refused(""), HasSubstr("without its end"));
}

TEST(Shard, SamplesAreNeighboursWithOneKey) {
  const harness::ScratchDirectory scratch;
  const Path path = scratch.write("s.tar", archive({{"0/a.jpg", "A"},
                                                    {"0/a.seg.PNG", "S"},
                                                    {"0/a.txt", "T"},
                                                    {"__notes__/x.txt", "n"},
                                                    {"README", "r"},
                                                    {"0/b.jpg", "B"}}));
  const Shard shard(path);
  ASSERT_EQ(shard.samples().size(), 2u);
  EXPECT_EQ(shard.samples()[0].key, "0/a");
  EXPECT_EQ(static_cast<char>(shard.part(0, "seg.png")[0]), 'S');
  EXPECT_EQ(static_cast<char>(shard.part(1, "jpg")[0]), 'B');
  EXPECT_FALSE(shard.has(1, "txt"));
  EXPECT_THAT(shard_refusal([&] { shard.part(1, "txt"); }),
              HasSubstr("s.tar: sample 0/b has no .txt"));
}

TEST(Shard, OneExtensionTwiceIsRefused) {
  const std::string tar = archive({{"a.jpg", "A"}, {"a.JPG", "B"}});
  EXPECT_THAT(shard_refusal([&] { parse_shard(bytes_of(tar), "s.tar"); }),
              HasSubstr("s.tar: sample a has .jpg twice"));
}

TEST(Tar, AnUnfinishedOneLeavesNothing) {
  const harness::ScratchDirectory scratch;
  { TarWriter(scratch / "a.tar").add("a", "b"); }
  EXPECT_FALSE(std::filesystem::exists(scratch / "a.tar"));
}

}  // namespace
}  // namespace trireme::media::tar_test
