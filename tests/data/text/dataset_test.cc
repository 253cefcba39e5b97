#include "trireme/data/text/dataset.h"

#include <sys/stat.h>

#include <cstdlib>

#include "tests/formats/scratch.h"
#include "trireme/base/hash.h"
#include "trireme/data/text/bpe_train.h"

namespace trireme::text::dataset_test {
namespace {

using ::testing::HasSubstr;

// 40 small files; validation takes some of them.
std::vector<SourceFile> forty(const formats::Scratch& scratch) {
  for (int i = 0; i < 40; ++i)
    scratch.write("text/" + std::to_string(i % 3) + "/" + std::to_string(i) + ".txt",
                  "document " + std::to_string(i) + " \xC3\xA9\n");
  return collect_sources({scratch / "text"});
}

std::string text_of(const Tokenizer& tokenizer, const TokenFile& file) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(file.tokens()));
  file.read(0, std::span(tokens));
  return tokenizer.decode(tokens);
}

TEST(Sources, AreSortedFilteredAndNamedAlike) {
  const formats::Scratch scratch;
  for (const char* name : {"d/b.h", "d/a/z.h", "d/a.txt", "d/.git/x.h", "d/.hidden.h", "one.txt"})
    scratch.write(name, "x");
  std::filesystem::create_symlink(scratch / "one.txt", scratch / "d/link.h");
  const auto names = [](const std::vector<SourceFile>& files) {
    std::vector<std::string> out;
    for (const SourceFile& file : files) out.push_back(file.name);
    return out;
  };
  EXPECT_EQ(names(collect_sources({scratch / "d"}, {".h"})),
            (std::vector<std::string>{"d/a/z.h", "d/b.h"}));
  EXPECT_EQ(names(collect_sources({scratch / "one.txt", scratch / "d/"})),
            (std::vector<std::string>{"one.txt", "d/a.txt", "d/a/z.h", "d/b.h"}));
  EXPECT_THAT(formats::refusal([&] { collect_sources({scratch / "none"}); }),
              HasSubstr("none: no such file"));
  EXPECT_THAT(formats::refusal([&] { collect_sources({scratch / "d"}, {".py"}); }),
              HasSubstr("no text file"));
  EXPECT_THAT(formats::refusal([&] { collect_sources({}); }), HasSubstr("no text file"));
  ::mkfifo((scratch / "pipe").c_str(), 0600);
  EXPECT_THAT(formats::refusal([&] { collect_sources({scratch / "pipe"}); }),
              HasSubstr("neither a file nor a directory"));
}

TEST(Dataset, HoldsOutDocumentsByName) {
  const formats::Scratch scratch;
  const std::vector<SourceFile> sources = forty(scratch);
  PrepareOptions options{
      .sources = sources, .out = scratch / "out", .validation = {.fraction = 0.25}};
  std::int64_t last = 0;
  options.progress = [&](const PrepareProgress& progress) { last = progress.bytes_done; };
  const Dataset dataset = prepare_dataset(options);
  EXPECT_EQ(dataset.train_info.documents + dataset.val_info.documents, 40);
  EXPECT_GT(dataset.val_info.documents, 3);
  EXPECT_LT(dataset.val_info.documents, 20);
  EXPECT_EQ(dataset.train_info.text_bytes + dataset.val_info.text_bytes, last);
  EXPECT_EQ(dataset.train_info.tokens, dataset.train_info.text_bytes);
  EXPECT_EQ(verify_dataset(scratch / "out").digest, dataset.digest);
  // Fewer files keep the side of those that stay.
  options.sources.resize(20);
  options.out = scratch.path().string() + "/half/";
  const Dataset half = prepare_dataset(options);
  EXPECT_THAT(text_of(dataset.tokenizer, dataset.val),
              ::testing::StartsWith(text_of(half.tokenizer, half.val)));
}

TEST(Dataset, HoldsOutTheTailAsNanoGptDoes) {
  const formats::Scratch scratch;
  const std::string text = "First Citizen:\nBefore we proceed any further, hear me speak.\n";
  scratch.write("a.txt", text.substr(0, 20));
  scratch.write("b.txt", text.substr(20));
  const Dataset dataset =
      prepare_dataset({.sources = collect_sources({scratch / "a.txt", scratch / "b.txt"}),
                       .out = scratch / "out",
                       .tokenizer = parse_tokenizer("characters"),
                       .validation = parse_validation("tail:0.1")});
  const auto cut = static_cast<std::size_t>(static_cast<double>(text.size()) * 0.9);
  EXPECT_EQ(text_of(dataset.tokenizer, dataset.train), text.substr(0, cut));
  EXPECT_EQ(text_of(dataset.tokenizer, dataset.val), text.substr(cut));
  EXPECT_STREQ(dataset.tokenizer.kind(), "characters");
  EXPECT_EQ(dataset.train.documents(), 2);
  EXPECT_EQ(dataset.val.documents(), 1);
}

TEST(Dataset, TheTailNeverCutsACharacter) {
  const formats::Scratch scratch;
  scratch.write("a.txt", "\xE2\x82\xAC\xE2\x82\xAC\xE2\x82\xAC\xE2\x82\xAC");
  const Dataset dataset = prepare_dataset({.sources = collect_sources({scratch / "a.txt"}),
                                           .out = scratch / "out",
                                           .validation = parse_validation("tail:0.6")});
  EXPECT_EQ(dataset.train_info.text_bytes, 6);
  EXPECT_EQ(dataset.val_info.text_bytes, 6);
}

TEST(Dataset, EqualSourcesGiveEqualBytes) {
  const formats::Scratch scratch;
  const std::vector<SourceFile> sources = forty(scratch);
  const Dataset a = prepare_dataset({.sources = sources,
                                     .out = scratch / "a",
                                     .tokenizer = parse_tokenizer("characters"),
                                     .validation = {.fraction = 0.2}});
  const Dataset b = prepare_dataset({.sources = sources,
                                     .out = scratch / "b",
                                     .tokenizer = parse_tokenizer("characters"),
                                     .validation = {.fraction = 0.2}});
  EXPECT_EQ(a.digest, b.digest);
  EXPECT_EQ(formats::digest_file(scratch / "a/train.bin").hash,
            formats::digest_file(scratch / "b/train.bin").hash);
}

TEST(Dataset, LearnsItsVocabularyFromTheTrainingSplitOnly) {
  const formats::Scratch scratch;
  std::string text;
  for (int i = 0; i < 30; ++i) text += "oars of the trireme \xE2\x82\xAC\n";
  for (int i = 0; i < 20; ++i) text += "zzzz zzzz zzzz zzzz zz\n";  // held out
  scratch.write("a.txt", text);
  scratch.write("b.txt", "zzzz");
  const std::size_t cut = text.find('z');
  const double fraction =
      1 - (static_cast<double>(cut) + 0.5) / static_cast<double>(text.size() + 4);
  const Dataset dataset =
      prepare_dataset({.sources = collect_sources({scratch / "a.txt", scratch / "b.txt"}),
                       .out = scratch / "out",
                       .tokenizer = parse_tokenizer("bpe:270"),
                       .validation = {.by = ValidationRule::By::kTail, .fraction = fraction}});
  WordCounts words;
  words.add(text.substr(0, cut));
  EXPECT_EQ(dataset.tokenizer.description(),
            Tokenizer::hugging_face(train_bpe(words, 270), "expected").description());
  EXPECT_EQ(dataset.tokenizer.vocab_size(), 270);
  EXPECT_EQ(text_of(dataset.tokenizer, dataset.train), text.substr(0, cut));
  EXPECT_EQ(text_of(dataset.tokenizer, dataset.val), text.substr(cut) + "zzzz");
  EXPECT_EQ(dataset.train_info.text_bytes, static_cast<std::int64_t>(cut));
  EXPECT_EQ(dataset.val_info.text_bytes, static_cast<std::int64_t>(text.size() + 4 - cut));
  EXPECT_LT(dataset.train_info.tokens, dataset.train_info.text_bytes / 2);
  EXPECT_EQ(dataset.train_info.tokens, dataset.train.tokens());
  EXPECT_EQ(verify_dataset(scratch / "out").digest, dataset.digest);

  const std::vector<SourceFile> files = forty(scratch);
  const PrepareOptions options{.sources = files,
                               .out = scratch / "files",
                               .tokenizer = parse_tokenizer("bpe:260"),
                               .validation = {.fraction = 0.25}};
  const Dataset split = prepare_dataset(options);
  WordCounts training;
  for (std::int64_t k = 0; k < split.train.documents(); ++k) {
    std::vector<std::int32_t> ids(static_cast<std::size_t>(split.train.document(k).count));
    split.train.read(split.train.document(k).first, std::span(ids));
    training.add(split.tokenizer.decode(ids));
  }
  EXPECT_EQ(split.tokenizer.description(),
            Tokenizer::hugging_face(train_bpe(training, 260), "expected").description());
  EXPECT_EQ(prepare_dataset(options).digest, split.digest);
}

TEST(Dataset, TokenizerChoicesParse) {
  using By = TokenizerChoice::By;
  EXPECT_EQ(parse_tokenizer("bytes").by, By::kBytes);
  EXPECT_EQ(parse_tokenizer("characters").by, By::kCharacters);
  EXPECT_EQ(parse_tokenizer("bpe:257").vocab_size, 257);
  EXPECT_EQ(parse_tokenizer("bpe:65536").vocab_size, 65536);
  EXPECT_EQ(parse_tokenizer("./bpe:9").file, "./bpe:9");
  EXPECT_EQ(parse_tokenizer("bpe").by, By::kFile);
  for (const char* bad : {"bpe:", "bpe:256", "bpe:1048577", "bpe:-1", "bpe:1k", "bpe:+300",
                          "bpe: 300", "bpe:99999999999"})
    EXPECT_THAT(formats::refusal([&] { parse_tokenizer(bad); }, ErrorKind::kUsage),
                HasSubstr("N from 257 to 1048576"));
}

// Of a vocabulary that was learnt: special tokens at its end, and used again for other text.
TEST(Dataset, LearntVocabulariesHaveSpecialTokensAndAreUsedAgain) {
  const formats::Scratch scratch;
  std::string text;
  for (int i = 0; i < 30; ++i) text += "oars of the trireme\n";
  scratch.write("a.txt", text);
  scratch.write("b.txt", "the trireme of the oars" + text.substr(0, 60));
  PrepareOptions options{.sources = collect_sources({scratch / "a.txt"}),
                         .out = scratch / "a",
                         .tokenizer = parse_tokenizer("bpe:270"),
                         .validation = parse_validation("tail:0.1"),
                         .end_of_document = "<|end|>"};
  options.tokenizer.special = {"<|end|>", "<|user|>"};
  const Dataset learnt = prepare_dataset(options);
  EXPECT_EQ(learnt.tokenizer.vocab_size(), 270);
  EXPECT_EQ(learnt.tokenizer.added_token("<|end|>"), 268);
  EXPECT_EQ(learnt.tokenizer.encode("<|user|>"), std::vector<std::int32_t>{269});
  EXPECT_EQ(learnt.tokenizer.ends(), std::vector<std::int32_t>{268});
  EXPECT_EQ(learnt.train.max_token(), 268);

  options.sources = collect_sources({scratch / "b.txt"});
  options.out = scratch / "b";
  options.tokenizer = parse_tokenizer((scratch / "a").string());
  const Dataset again = prepare_dataset(options);
  EXPECT_EQ(again.tokenizer.digest(), learnt.tokenizer.digest());
  EXPECT_EQ(again.tokenizer.vocab_size(), 270);
  options.tokenizer = parse_tokenizer("bpe:258");
  options.tokenizer.special = {"<|end|>", "<|user|>"};
  EXPECT_THAT(formats::refusal([&] { prepare_dataset(options); }, ErrorKind::kUsage),
              HasSubstr("a vocabulary of 259 to 1048576 is needed, which includes 2 special"));
}

TEST(Dataset, VocabulariesMayBeLargerThanSixteenBits) {
  const formats::Scratch scratch;
  std::string text;
  for (int i = 0; i < 80000; ++i) {
    std::string word = " ";
    for (int n = i * 17 + 1; n > 0; n /= 20) word += static_cast<char>('a' + n % 20);
    text += word + word;
  }
  scratch.write("words.txt", text);
  const Dataset dataset =
      prepare_dataset({.sources = collect_sources({scratch / "words.txt"}),
                       .out = scratch / "out",
                       .tokenizer = parse_tokenizer("bpe:66000"),
                       .validation = {.by = ValidationRule::By::kTail, .fraction = 0}});
  EXPECT_EQ(dataset.tokenizer.vocab_size(), 66000);
  EXPECT_EQ(dataset.train.dtype(), DType::kI32);
  EXPECT_EQ(text_of(dataset.tokenizer, dataset.train), text);
}

TEST(Dataset, RefusesWhatIsNoText) {
  const formats::Scratch scratch;
  const std::pair<std::string, const char*> table[] = {
      {std::string("\x89PNG\r\n\x1a\n\0\0\0\rIHDR", 16), "a PNG picture"},
      {"\xFF\xD8\xFF\xE0 JFIF", "a JPEG picture"},
      {std::string("\xFF\xFEh\0i\0", 6), "UTF-16 text"},
      {std::string("\xFE\xFF\0h\0i", 6), "UTF-16 text"},
      {std::string("\xFF\xFE\0\0h\0\0\0", 8), "UTF-32 text"},
      {std::string("h\0i\0", 4), "has a byte 0 at 1"}};
  for (const auto& [bytes, message] : table)
    for (const char* tokenizer : {"bytes", "characters", "bpe:257"}) {
      scratch.write("file", bytes);
      PrepareOptions options{.sources = collect_sources({scratch / "file"}),
                             .out = scratch / "out",
                             .tokenizer = parse_tokenizer(tokenizer),
                             .validation = parse_validation("tail:0.3")};
      const std::string why = formats::refusal([&] { prepare_dataset(options); });
      EXPECT_THAT(why, HasSubstr(message));
      EXPECT_THAT(why, HasSubstr("--binary"));
      if (std::string_view(tokenizer) != "bytes") continue;
      options.binary = true;
      const Dataset taken = prepare_dataset(options);
      EXPECT_EQ(taken.train.tokens() + taken.val.tokens(), static_cast<std::int64_t>(bytes.size()));
      std::filesystem::remove_all(scratch / "out");
    }
}

TEST(Dataset, NeverOverwritesWithoutForce) {
  const formats::Scratch scratch;
  PrepareOptions options{
      .sources = forty(scratch), .out = scratch / "out", .validation = {.fraction = 0.2}};
  const std::string digest = prepare_dataset(options).digest;
  EXPECT_EQ(prepare_dataset(options).digest, digest) << "the same data again is no conflict";
  options.validation.fraction = 0.5;
  EXPECT_THAT(formats::refusal([&] { prepare_dataset(options); }, ErrorKind::kUsage),
              HasSubstr("holds another dataset"));
  EXPECT_EQ(verify_dataset(scratch / "out").digest, digest);
  options.force = true;
  const std::string other = prepare_dataset(options).digest;
  EXPECT_NE(other, digest);
  EXPECT_EQ(verify_dataset(scratch / "out").digest, other);

  options.out = scratch / "mine";
  scratch.write("mine/thesis.txt", "precious");
  EXPECT_THAT(formats::refusal([&] { prepare_dataset(options); }, ErrorKind::kUsage),
              HasSubstr("is not a dataset"));
  options.out = scratch / "mine/thesis.txt";
  EXPECT_THAT(formats::refusal([&] { prepare_dataset(options); }, ErrorKind::kUsage),
              HasSubstr("is not a dataset"));
  EXPECT_EQ(read_file(scratch / "mine/thesis.txt"), "precious");
  for (const auto& entry : std::filesystem::directory_iterator(scratch.path()))
    EXPECT_EQ(entry.path().string().find(".tmp-"), std::string::npos) << entry.path();
}

TEST(Dataset, RefusesUnusableText) {
  const formats::Scratch scratch;
  scratch.write("empty.txt", "");
  scratch.write("latin1.txt", "caf\xE9 au lait");
  scratch.write("good.txt", "some text");
  const auto reason = [&](std::vector<SourceFile> sources, const std::string& tokenizer = "bytes",
                          const std::string& end = "", ErrorKind kind = ErrorKind::kData) {
    const std::string message = formats::refusal(
        [&] {
          prepare_dataset({.sources = sources,
                           .out = scratch / "out",
                           .tokenizer = parse_tokenizer(tokenizer),
                           .validation = parse_validation("tail:0.5"),
                           .end_of_document = end});
        },
        kind);
    EXPECT_FALSE(std::filesystem::exists(scratch / "out"));
    return message;
  };
  const auto file = [&](const std::string& name) {
    return SourceFile{.path = scratch / name, .name = name, .size = 9};
  };
  EXPECT_THAT(reason({}), HasSubstr("no text file"));
  EXPECT_THAT(reason({file("empty.txt")}), HasSubstr("are empty"));
  EXPECT_THAT(reason({file("empty.txt")}, "characters"), HasSubstr("empty"));
  EXPECT_THAT(reason({file("absent.txt")}), HasSubstr("absent.txt: cannot open"));
  EXPECT_THAT(reason({{.path = scratch.path(), .name = "d"}}), HasSubstr("not a regular file"));
  EXPECT_THAT(reason({file("latin1.txt")}, "characters"),
              HasSubstr("latin1.txt: the text is not valid UTF-8"));
  EXPECT_THAT(reason({file("good.txt")}, "none.json", "", ErrorKind::kUsage),
              HasSubstr("neither bytes, characters, bpe:N"));
  EXPECT_THAT(reason({file("good.txt")}, (scratch / "good.txt").string()),
              HasSubstr("not valid JSON"));
  EXPECT_THAT(reason({file("good.txt")}, "bytes", "<|end|>", ErrorKind::kUsage),
              HasSubstr("no added token"));
  EXPECT_THAT(reason({file("good.txt")}, "bpe:300", "", ErrorKind::kUsage), HasSubstr("use bytes"));
  EXPECT_THAT(formats::refusal([&] {
                prepare_dataset({.sources = {file("good.txt")},
                                 .out = scratch / "out",
                                 .validation = {.fraction = 0.5}});
              }),
              HasSubstr("leave nothing for"));
  EXPECT_THAT(formats::refusal([&] { prepare_dataset({.sources = {file("good.txt")}, .out = {}}); },
                               ErrorKind::kUsage),
              HasSubstr("--out"));
  EXPECT_THAT(
      formats::refusal(
          [&] { prepare_dataset({.sources = {file("good.txt")}, .out = scratch / "good.txt/x"}); },
          ErrorKind::kUsage),
      HasSubstr("cannot create"));
}

TEST(Dataset, ValidationRulesParse) {
  EXPECT_EQ(parse_validation("documents:0.05").by, ValidationRule::By::kDocuments);
  EXPECT_EQ(parse_validation("tail:0.1").fraction, 0.1);
  EXPECT_EQ(parse_validation("documents:20").count, 20);
  for (const char* bad : {"", "tail", "tail:", "tail:0", "tail:1", "tail:-0.1", "tail:nan",
                          "tail:0.1x", "head:0.1", ":0.1", "tail:20", "documents:1.5"})
    EXPECT_THAT(formats::refusal([&] { parse_validation(bad); }, ErrorKind::kUsage),
                HasSubstr("documents:F or tail:F"));
}

TEST(Dataset, HoldsOutANumberOfFiles) {
  const formats::Scratch scratch;
  const std::vector<SourceFile> sources = forty(scratch);
  const auto held_out = [&](std::int64_t count) {
    return prepare_dataset({.sources = sources,
                            .out = scratch / ("out" + std::to_string(count)),
                            .validation = {.count = count}})
        .val_info.documents;
  };
  EXPECT_EQ(held_out(1), 1);
  EXPECT_EQ(held_out(7), 7);
  EXPECT_THAT(formats::refusal([&] { held_out(40); }, ErrorKind::kUsage),
              HasSubstr("40 files to hold out for validation, but there are 40"));
}

TEST(Dataset, RefusesBrokenDirectories) {
  const formats::Scratch scratch;
  const std::vector<SourceFile> sources = forty(scratch);
  const auto replaced = [&](const std::string& name, const std::string& from,
                            const std::string& to) {
    std::string text = read_file(scratch / name);
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    scratch.write(name, text.replace(at, from.size(), to));
  };
  const std::pair<std::function<void()>, const char*> table[] = {
      {[&] { std::filesystem::remove_all(scratch / "out"); }, "no such dataset"},
      {[&] { std::filesystem::remove(scratch / "out/dataset.json"); }, "has no dataset.json"},
      {[&] { scratch.write("out/dataset.json", "{"); }, "not valid JSON"},
      {[&] { replaced("out/dataset.json", "\"version\": 1", "\"version\": 9"); },
       "version 9, this build reads version 1; prepare the data again"},
      {[&] { replaced("out/dataset.json", "trireme.dataset", "zip"); }, "format is \"zip\""},
      {[&] { replaced("out/dataset.json", "\"vocab_size\": 256", "\"vocab_size\": 255"); },
       "vocabulary of 256"},
      {[&] { replaced("out/dataset.json", "\"vocab_size\": 256", "\"vocab_size\": -1"); },
       "vocab_size: is -1"},
      {[&] { replaced("out/dataset.json", "vocabulary_digest\": \"", "vocabulary_digest\": \"0"); },
       "vocabulary of digest "},
      {[&] { replaced("out/dataset.json", "\"tokens\": ", "\"tokens\": 1"); },
       "tokens, dataset.json says"},
      {[&] { replaced("out/dataset.json", "\"val.idx\"", "\"val.idy\""); },
       "\"val.idx\" is missing"},
      {[&] { std::filesystem::remove(scratch / "out/val.bin"); }, "val.bin: No such file"},
      {[&] { std::ofstream(scratch / "out/train.bin", std::ios::app) << 'x'; }, "train.bin: has"},
      {[&] { std::ofstream(scratch / "out/vocabulary.json", std::ios::app) << 'x'; },
       "vocabulary.json: has"},
      {[&] { replaced("out/vocabulary.json", "bytes", "words"); },
       "vocabulary.json: does not have the digest"},
      {[&] { replaced("out/train.idx", "MMID", "NNID"); }, "not a token index"},
      {[&] { replaced("out/val.bin", "document", "DOCUMENT"); },
       "val.bin: does not have the digest"},
  };
  for (const auto& [damage, message] : table) {
    prepare_dataset({.sources = sources, .out = scratch / "out", .validation = {.fraction = 0.3}});
    damage();
    EXPECT_THAT(formats::refusal([&] { verify_dataset(scratch / "out"); }), HasSubstr(message));
    std::filesystem::remove_all(scratch / "out");
  }
}

// Datasets of earlier versions do not say it: they open, and preparing the same again changes nothing.
TEST(Dataset, KeepsTheDigestOfItsVocabulary) {
  const formats::Scratch scratch;
  const PrepareOptions options{
      .sources = forty(scratch), .out = scratch / "out", .validation = {.fraction = 0.3}};
  const Dataset dataset = prepare_dataset(options);
  const std::string text = read_file(scratch / "out/dataset.json");
  const std::string line = ",\n \"vocabulary_digest\": \"" + dataset.tokenizer.digest() + "\"";
  ASSERT_NE(text.find(line), std::string::npos) << text;
  std::string earlier = text;
  scratch.write("out/dataset.json", earlier.erase(text.find(line), line.size()));
  const Dataset again = prepare_dataset(options);
  EXPECT_EQ(again.tokenizer.digest(), dataset.tokenizer.digest());
  EXPECT_EQ(again.digest, dataset.digest) << "runs that began on the one continue on the other";
  EXPECT_EQ(read_file(scratch / "out/dataset.json"), earlier);
}

TEST(Quickstart, LeavesOutGeneratedAndRepeatedHeaders) {
  const formats::Scratch scratch;
  std::string body;
  for (int i = 0; i < 40; ++i)
    body += "int value_" + std::string(1, static_cast<char>('a' + i % 26)) + "(" +
            std::string(static_cast<std::size_t>(i), '*') + ");\n";
  scratch.write("ATen/core/Tensor.h", body);
  scratch.write("ATen/core/Copy3.h", "// other\n" + body);
  scratch.write("ATen/ops/add.h", "int add();\n");
  scratch.write("torch/gen.h", "// @generated by torchgen\nint g();\n");
  scratch.write("torch/script.h",
                "#include <a>\nclass Script;\nint run();\nvoid stop();\nint other();\n");
  scratch.write("torch/notes.txt", "not a header");
  scratch.write("c++/9/vector", "old\n");
  scratch.write("c++/14/vector", "template <class T> class vector;\n");
  scratch.write("other/x.h", "int x();\n");
  const QuickstartText text = quickstart_text({scratch.path()});
  std::vector<std::string> names;
  for (const SourceFile& file : text.files) names.push_back(file.name);
  EXPECT_EQ(names, (std::vector<std::string>{"ATen/core/Copy3.h", "torch/script.h", "c++/vector"}));
  EXPECT_EQ(text.near_duplicate_bytes, static_cast<std::int64_t>(body.size()));
  EXPECT_GT(text.generated_bytes, 0);
  EXPECT_THAT(formats::refusal([&] { quickstart_text({scratch / "other"}); }),
              HasSubstr("no headers of LibTorch"));
}

}  // namespace
}  // namespace trireme::text::dataset_test
