#include "trireme/data/text/token_file.h"

#include <cstring>

#include "tests/formats/scratch.h"

namespace trireme::text::token_file_test {
namespace {

using ::testing::HasSubstr;

template <typename T>
std::string le(T value) {
  std::string out(sizeof(T), '\0');
  std::memcpy(out.data(), &value, sizeof(T));
  return out;
}

struct Index {
  std::string magic = std::string("MMIDIDX\0\0", 9);
  std::uint64_t version = 1;
  std::uint8_t type = 8;
  std::vector<std::int32_t> lengths{3, 0, 2};
  std::vector<std::int64_t> pointers{0, 6, 6};
  std::vector<std::int64_t> documents{0, 2, 3};
  std::uint64_t sequences = 3;
  std::uint64_t boundaries = 3;
  std::string tail;

  std::string bytes() const {
    std::string out = magic + le(version) + le(type) + le(sequences) + le(boundaries);
    for (const auto v : lengths) out += le(v);
    for (const auto v : pointers) out += le(v);
    for (const auto v : documents) out += le(v);
    return out + tail;
  }
};

const std::string kTokens = le<std::uint16_t>(1) + le<std::uint16_t>(65535) + le<std::uint16_t>(3) +
                            le<std::uint16_t>(4) + le<std::uint16_t>(5);

TEST(TokenFile, ReadsMegatronBytes) {
  const formats::Scratch scratch;
  scratch.write("t.bin", kTokens);
  scratch.write("t.idx", Index{}.bytes());
  const TokenFile file(scratch / "t");
  EXPECT_EQ(file.dtype(), DType::kU16);
  EXPECT_EQ(file.tokens(), 5);
  ASSERT_EQ(file.documents(), 2);
  EXPECT_EQ(file.document(0).count, 3) << "two sequences, one empty";
  EXPECT_EQ(file.document(1).first, 3);
  EXPECT_EQ(file.document(1).count, 2);
  std::vector<std::int64_t> wide(4);
  file.read(1, std::span(wide));
  EXPECT_EQ(wide, (std::vector<std::int64_t>{65535, 3, 4, 5}));
  std::vector<std::int32_t> narrow(5);
  file.read(0, std::span(narrow));
  EXPECT_EQ(narrow, (std::vector<std::int32_t>{1, 65535, 3, 4, 5}));
  EXPECT_EQ(file.max_token(), 65535);
  formats::refusal([&] { file.read(2, std::span(wide)); }, ErrorKind::kInternal);
  formats::refusal([&] { file.read(-1, std::span(wide)); }, ErrorKind::kInternal);
  formats::refusal([&] { file.document(2); }, ErrorKind::kInternal);
}

TEST(TokenFile, RoundTripsEveryType) {
  for (const std::int64_t vocab : {256, 65536, 200000}) {
    const formats::Scratch scratch;
    TokenFileWriter writer(scratch / "t", token_dtype(vocab));
    const std::vector<std::vector<std::int32_t>> documents{
        {0, static_cast<std::int32_t>(vocab - 1)}, {}, {7, 8, 9}};
    for (const auto& document : documents) writer.add_document(document);
    const TokenFileDigests digests = writer.finish();
    EXPECT_EQ(digests.bin.hash, formats::digest_file(scratch / "t.bin").hash);
    EXPECT_EQ(digests.idx.hash, formats::digest_file(scratch / "t.idx").hash);
    const TokenFile file(scratch / "t");
    ASSERT_EQ(file.documents(), 3);
    EXPECT_EQ(file.max_token(), vocab - 1);
    for (std::int64_t i = 0; i < 3; ++i) {
      const TokenRange range = file.document(i);
      std::vector<std::int32_t> read(static_cast<std::size_t>(range.count));
      file.read(range.first, std::span(read));
      EXPECT_EQ(read, documents[i]);
    }
  }
}

TEST(TokenFile, AnUnfinishedWriterLeavesNothing) {
  const formats::Scratch scratch;
  const std::vector<std::int32_t> tokens{1, 2};
  TokenFileWriter(scratch / "t", DType::kU8).add_document(tokens);
  EXPECT_TRUE(std::filesystem::is_empty(scratch.path()));
}

TEST(TokenFile, AnIdBeyondTheTypeIsOurBug) {
  const formats::Scratch scratch;
  TokenFileWriter writer(scratch / "t", DType::kU8);
  const std::vector<std::int32_t> tokens{256};
  formats::refusal([&] { writer.add_document(tokens); }, ErrorKind::kInternal);
}

TEST(TokenFile, RefusesBrokenFiles) {
  const std::pair<std::function<void(Index&, std::string&)>, const char*> table[] = {
      {[](Index& i, auto&) { i.magic[0] = 'X'; }, "not a token index"},
      {[](Index& i, auto&) { i.version = 2; }, "index version 2"},
      {[](Index& i, auto&) { i.type = 7; }, "type code 7"},
      {[](Index& i, auto&) { i.type = 0; }, "type code 0"},
      {[](Index& i, auto&) { i.lengths[1] = -1; }, "negative length -1"},
      {[](Index& i, auto&) { i.pointers[1] = 4; }, "sequence 1 points to byte 4, 6 is needed"},
      {[](Index& i, auto&) { i.pointers[0] = -2; }, "points to byte -2"},
      {[](Index& i, auto&) { i.lengths[2] = 2000000000; }, "beyond the 10 bytes"},
      {[](Index& i, auto&) { i.documents[0] = 1; }, "out of order"},
      {[](Index& i, auto&) {
         i.documents = {0, 3, 2};
       },
       "out of order"},
      {[](Index& i, auto&) {
         i.documents = {0, -1, 3};
       },
       "out of order"},
      {[](Index& i, auto&) {
         i.documents = {0, 2, 4};
       },
       "out of order"},
      {[](Index& i, auto&) {
         i.documents = {0, 2, 2};
       },
       "documents end at sequence 2 of 3"},
      {[](Index& i, auto&) { i.sequences = ~std::uint64_t{0}; }, "cut short"},
      {[](Index& i, auto&) { i.boundaries = std::uint64_t{1} << 61; }, "cut short"},
      {[](Index& i, auto&) { i.boundaries = 0; }, "cut short"},
      {[](Index& i, auto&) { i.documents.pop_back(); }, "cut short"},
      {[](Index& i, auto&) { i.tail = "x"; }, "1 bytes follow the index"},
      {[](Index& i, auto&) { i.tail = "xyz"; }, "multimodal"},
      {[](Index&, std::string& bin) { bin += "z"; }, "describes 10 bytes, the .bin has 11"},
      {[](Index&, std::string& bin) { bin.pop_back(); }, "beyond the 9 bytes"},
      {[](Index&, std::string& bin) { bin.clear(); }, "beyond the 0 bytes"},
  };
  for (const auto& [damage, message] : table) {
    const formats::Scratch scratch;
    Index index;
    std::string bin = kTokens;
    damage(index, bin);
    scratch.write("t.idx", index.bytes());
    scratch.write("t.bin", bin);
    EXPECT_THAT(formats::refusal([&] { TokenFile{scratch / "t"}; }), HasSubstr(message));
  }
  const formats::Scratch scratch;
  EXPECT_THAT(formats::refusal([&] { TokenFile{scratch / "t"}; }), HasSubstr("t.idx: cannot open"));
  scratch.write("t.idx", "");
  EXPECT_THAT(formats::refusal([&] { TokenFile{scratch / "t"}; }), HasSubstr("t.bin: cannot open"));
  scratch.write("t.bin", "");
  EXPECT_THAT(formats::refusal([&] { TokenFile{scratch / "t"}; }), HasSubstr("cut short"));
}

TEST(TokenFile, RefusesNegativeTokens) {
  const formats::Scratch scratch;
  scratch.write("t.bin", le<std::int32_t>(5) + le<std::int32_t>(-5));
  Index index{.type = 4,
              .lengths = {2},
              .pointers = {0},
              .documents = {0, 1},
              .sequences = 1,
              .boundaries = 2,
              .tail = ""};
  scratch.write("t.idx", index.bytes());
  EXPECT_THAT(formats::refusal([&] { TokenFile(scratch / "t").max_token(); }),
              HasSubstr("token 1 is negative (-5)"));
}

TEST(TokenFile, SurvivesDamage) {
  const formats::Scratch scratch;
  scratch.write("t.bin", kTokens);
  formats::mutate(Index{}.bytes(), 500, [&](const std::string& bad) {
    scratch.write("t.idx", bad);
    const TokenFile file(scratch / "t");
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(file.tokens()));
    file.read(0, std::span(tokens));
    for (std::int64_t i = 0; i < file.documents(); ++i)
      EXPECT_LE(file.document(i).count, file.tokens());
  });
}

}  // namespace
}  // namespace trireme::text::token_file_test
