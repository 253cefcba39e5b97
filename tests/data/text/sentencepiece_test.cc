#include "trireme/data/text/tokenizer/sentencepiece.h"

#include "tests/data/text/tokenizer_files.h"
#include "tests/formats/scratch.h"
#include "trireme/data/text/tokenizer.h"
#include "trireme/data/text/vocabulary.h"

namespace trireme::text::sentencepiece_test {
namespace {

using ::testing::HasSubstr;
using Ids = std::vector<std::int32_t>;
using Spans = std::vector<TokenSpan>;

constexpr unsigned kNormal = 1, kUserDefined = 4, kUnused = 5;
const std::string kMark = "\xE2\x96\x81";
const std::string kReplaced = "\xEF\xBF\xBD";

Tokenizer read(const std::string& model) { return Tokenizer::sentencepiece(model, "m"); }

// Pieces 3: "▁", 4: "a", 5: "b", 6: "ab", 7: "▁ab".
std::string common_pieces() {
  return proto_piece(kMark, -5, kNormal) + proto_piece("a", -4, kNormal) +
         proto_piece("b", -4, kNormal) + proto_piece("ab", -2, kNormal) +
         proto_piece(kMark + "ab", -3, kNormal);
}

TEST(SentencePiece, UnigramAndBpe) {
  for (const unsigned type : {1u, 2u}) {
    const Tokenizer tokenizer = read(piece_model(common_pieces(), {.model_type = type}));
    EXPECT_STREQ(tokenizer.kind(), type == 1 ? "unigram" : "bpe");
    EXPECT_EQ(tokenizer.vocab_size(), 8);
    EXPECT_EQ(tokenizer.encode(" ab  ab "), (Ids{7, 7})) << "extra spaces go";
    EXPECT_EQ(tokenizer.encode_spans("ab  ab"), (Spans{{7, 0, 2}, {7, 2, 6}}));
    EXPECT_EQ(tokenizer.encode("abxyb"), (Ids{7, 0, 5})) << "unknown characters are one token";
    EXPECT_EQ(tokenizer.decode(Ids{7, 7, 0}), "ab ab \xE2\x81\x87 ");
    EXPECT_EQ(tokenizer.decode(Ids{1, 7, 2}), "ab") << "control pieces have no text";
    EXPECT_EQ(tokenizer.encode("</s>").back(), 0) << "nor does text become them";
    EXPECT_EQ(tokenizer.find_added_token("</s>"), 2);
    EXPECT_EQ(tokenizer.ends(), Ids{2});
    EXPECT_EQ(tokenizer.encode_prompt("ab"), (Ids{1, 7}));
    EXPECT_EQ(tokenizer.encode(""), Ids{});
  }
}

TEST(SentencePiece, BytesUserDefinedAndUnusedPieces) {
  for (const unsigned type : {1u, 2u}) {
    const Tokenizer bytes =
        read(piece_model(common_pieces(), {.model_type = type, .byte_fallback = true}));
    EXPECT_EQ(bytes.encode("ab\xC3\xA9"), (Ids{7, 8 + 0xC3, 8 + 0xA9}));
    EXPECT_EQ(bytes.decode(Ids{7, 8 + 0xC3, 8 + 0xA9}), "ab\xC3\xA9");
    EXPECT_EQ(bytes.decode(Ids{8 + 0xC3, 8 + 0xA9, 8 + 0xFF}), "\xC3\xA9" + kReplaced)
        << "a replacement only for the byte that is no character";
    EXPECT_EQ(bytes.encode("ab\xFF").size(), 4u) << "an invalid byte is U+FFFD";
    const Tokenizer symbols = read(
        piece_model(common_pieces() + proto_piece("b<x>", 0, kUserDefined), {.model_type = type}));
    EXPECT_EQ(symbols.encode("ab<x>b"), (Ids{3, 4, 8, 5})) << "is never divided or merged";
    EXPECT_EQ(symbols.find_added_token("b<x>"), 8);
    std::string unused = common_pieces();
    unused += proto_piece(kMark + "aba", 5, kUnused);
    EXPECT_EQ(read(piece_model(unused, {.model_type = type})).encode("aba"), (Ids{7, 4}));
  }
}

TEST(SentencePiece, OptionsOfTheNormalizer) {
  const auto encode = [](const std::string& normalizer, const std::string& text) {
    return read(piece_model(common_pieces(), {.normalizer = normalizer})).encode(text);
  };
  EXPECT_EQ(encode(proto_number(3, 0), "ab ab"), (Ids{6, 7})) << "without a dummy prefix";
  EXPECT_EQ(encode(proto_number(4, 0), "ab  ab"), (Ids{7, 3, 7})) << "with extra spaces";
  EXPECT_EQ(encode(proto_number(5, 0), "ab"), (Ids{0, 6})) << "spaces stay spaces";
}

TEST(SentencePiece, DescriptionsAndDirectoriesHoldModels) {
  const std::string model = piece_model(common_pieces(), {});
  const Tokenizer tokenizer = read(model);
  const Tokenizer again = Tokenizer::from_description(tokenizer.description(), "d");
  EXPECT_EQ(again.digest(), tokenizer.digest());
  EXPECT_EQ(again.begin(), 1);
  EXPECT_EQ(again.encode("ab"), Ids{7});
  EXPECT_STREQ(again.file().name, "tokenizer.model");
  EXPECT_EQ(again.file().content, model);
  EXPECT_THAT(formats::refusal([&] { again.tokenizer_json(); }, ErrorKind::kUsage),
              HasSubstr("tokenizer.model"));
  const formats::Scratch scratch;
  scratch.write("hf/tokenizer.model", model);
  scratch.write("v1", model);
  EXPECT_EQ(read_vocabulary(scratch / "hf").digest(), tokenizer.digest());
  EXPECT_EQ(read_vocabulary(scratch / "v1").digest(), tokenizer.digest()) << "by its content";
  scratch.write("hf/config.json", R"({"eos_token_id": [7, 2]})");
  EXPECT_EQ(read_vocabulary(scratch / "hf").ends(), (Ids{7, 2}));
  std::set<std::string> digests = {tokenizer.digest()};
  digests.insert(read(piece_model(common_pieces(), {.model_type = 2})).digest());
  digests.insert(read(piece_model(common_pieces(), {.normalizer = proto_number(3, 0)})).digest());
  digests.insert(read(piece_model(common_pieces(), {.byte_fallback = true})).digest());
  EXPECT_EQ(digests.size(), 4u);
}

TEST(SentencePiece, RefusesBrokenModels) {
  const std::string good = piece_model(common_pieces(), {.byte_fallback = true});
  const std::pair<std::string, const char*> table[] = {
      {"", "m: 0 tokens of type unknown"},
      {good.substr(0, good.size() / 2), "ends inside a field"},
      {piece_model(common_pieces(), {.model_type = 3}), "m: trainer_spec: model_type 3"},
      {piece_model(proto_piece("", 0, kNormal), {}), "m: piece 3: has no text"},
      {piece_model(proto_piece("a", 0, 7), {}), "m: piece 3: type 7"},
      {piece_model(proto_piece("<s>", 0, kNormal), {}), "piece \"<s>\" appears twice"},
      {piece_model(proto_piece("<0x00>", 0, 6), {}), "1 tokens of type byte"},
      {piece_model("", {.normalizer = proto_bytes(2, "abcdefgh")}), "precompiled_charsmap: a trie"},
      {good + proto_bytes(5, proto_bytes(2, "x")), "denormalizer_spec"},
      {"\x0B", "wire type 3"},
      {proto_number(1, 5), "field 1 has wire type 0"},
  };
  for (const auto& [model, message] : table)
    EXPECT_THAT(formats::refusal([&, m = model] { read(m); }), HasSubstr(message));
}

}  // namespace
}  // namespace trireme::text::sentencepiece_test
