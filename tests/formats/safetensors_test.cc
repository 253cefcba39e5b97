#include "trireme/formats/safetensors.h"

#include <algorithm>
#include <cstring>

#include "tests/formats/scratch.h"
#include "tests/harness/write_safetensors.h"
#include "trireme/base/hash.h"

namespace trireme::formats::safetensors_test {
namespace {

std::string file_of(std::string header, const std::string& data) {
  std::uint64_t length = header.size();
  std::string out(8, '\0');
  std::memcpy(out.data(), &length, 8);
  return out + header + data;
}

std::string reason(const std::string& bytes) {
  return refusal([&] { parse_safetensors(bytes_of(bytes), "x.safetensors"); });
}

TEST(Safetensors, ReadsTheBytesOfTheFormat) {
  const std::string bytes = file_of(
      R"({"b":{"dtype":"U8","shape":[2],"data_offsets":[8,10]},"__metadata__":{"format":"pt"},)"
      R"("a":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},"e":{"dtype":"I64","shape":[0,3],"data_offsets":[10,10]}}  )",
      std::string("\0\0\x80\x3f\0\0\0\x40", 8) + "hi");
  const TensorTable table = parse_safetensors(bytes_of(bytes), "x");
  ASSERT_EQ(table.tensors.size(), 3u);
  EXPECT_EQ(table.metadata.at("format"), "pt");
  EXPECT_EQ(table.tensors[0].name, "a");
  EXPECT_EQ(table.tensors[0].shape, (std::vector<std::int64_t>{2, 1}));
  float values[2];
  std::memcpy(values, table.find("a")->bytes.data(), 8);
  EXPECT_EQ(values[0], 1.0f);
  EXPECT_EQ(values[1], 2.0f);
  EXPECT_EQ(table.find("e")->numel(), 0);
  EXPECT_EQ(table.find("missing"), nullptr);
}

TEST(Safetensors, RoundTripsEveryTypeInBothOrders) {
  const Scratch scratch;
  const std::string data(64, 'x');
  std::vector<Tensor> tensors;
  for (const DType type : {DType::kU8, DType::kF64, DType::kF32, DType::kBF16, DType::kF16,
                           DType::kI64, DType::kI32, DType::kI16, DType::kU16})
    tensors.push_back({.name = "t." + std::string(name(type)),
                       .dtype = type,
                       .shape = {2, 3},
                       .bytes = bytes_of(data).first(6 * size_of(type))});
  for (const TensorOrder order : {TensorOrder::kOfficial, TensorOrder::kAsGiven}) {
    const Path path = scratch / (order == TensorOrder::kOfficial ? "official" : "given");
    const FileDigest digest =
        harness::write_safetensors(path, tensors, {{"format", "pt"}, {"step", "3"}}, order);
    const std::string bytes = read_file(path);
    EXPECT_EQ(digest.size, static_cast<std::int64_t>(bytes.size()));
    EXPECT_EQ(digest.hash, hash64(bytes));
    const SafetensorsFile file(path);
    ASSERT_EQ(file.tensors().size(), tensors.size());
    EXPECT_EQ(file.tensors()[0].name, order == TensorOrder::kOfficial ? "t.fp64" : "t.uint8");
    EXPECT_EQ(file.metadata().at("step"), "3");
    for (const Tensor& tensor : tensors) {
      const Tensor* read = file.find(tensor.name);
      ASSERT_NE(read, nullptr);
      EXPECT_EQ(read->dtype, tensor.dtype);
      EXPECT_EQ(read->shape, tensor.shape);
      EXPECT_TRUE(std::ranges::equal(read->bytes, tensor.bytes));
    }
  }
}

TEST(Safetensors, DigestsEachMibWhileWriting) {
  const Scratch scratch;
  const std::string data((3 << 20) + 12345, 'y');
  const Tensor tensor{.name = "w",
                      .dtype = DType::kU8,
                      .shape = {static_cast<std::int64_t>(data.size())},
                      .bytes = bytes_of(data)};
  const FileDigest digest = harness::write_safetensors(scratch / "w", {&tensor, 1}, {});
  const FileDigest read = digest_file(scratch / "w");
  EXPECT_EQ(digest.size, read.size);
  EXPECT_EQ(digest.hash, read.hash);
  EXPECT_EQ(digest.mib_hashes, read.mib_hashes);
  EXPECT_EQ(read.mib_hashes.size(), 4u);
}

// Whoever streams may give every tensor in the same memory.
TEST(Safetensors, StreamsOneTensorAfterTheOther) {
  const Scratch scratch;
  const std::string contents[] = {std::string(6, 'a'), std::string(3 << 20, 'b'), "",
                                  std::string(16, 'c')};
  const std::vector<TensorInfo> infos = {{"narrow", DType::kBF16, {3}},
                                         {"large", DType::kF32, {3, 1 << 18}},
                                         {"empty", DType::kF32, {0}},
                                         {"wide", DType::kF64, {2}}};
  for (const TensorOrder order : {TensorOrder::kOfficial, TensorOrder::kAsGiven}) {
    std::vector<Tensor> tensors;
    for (std::size_t i = 0; i < infos.size(); ++i)
      tensors.push_back({infos[i].name, infos[i].dtype, infos[i].shape, bytes_of(contents[i])});
    const std::string name = order == TensorOrder::kOfficial ? "official" : "given";
    std::string buffer;
    std::vector<std::size_t> asked;
    const FileDigest digest =
        stream_safetensors(scratch / name, infos, {{"k", "v"}}, order, [&](std::size_t index) {
          asked.push_back(index);
          buffer.assign(buffer.size(), '?');
          buffer = contents[index];
          return bytes_of(buffer);
        });
    EXPECT_EQ(asked, order == TensorOrder::kOfficial ? (std::vector<std::size_t>{3, 2, 1, 0})
                                                     : (std::vector<std::size_t>{0, 1, 2, 3}));
    const FileDigest whole =
        harness::write_safetensors(scratch / "whole", tensors, {{"k", "v"}}, order);
    EXPECT_EQ(read_file(scratch / name), read_file(scratch / "whole"));
    EXPECT_EQ(digest.hash, whole.hash);
    std::filesystem::remove(scratch / "whole");
  }
  EXPECT_THAT(refusal(
                  [&] {
                    stream_safetensors(scratch / "short", infos, {}, TensorOrder::kAsGiven,
                                       [&](std::size_t) { return bytes_of(contents[0]); });
                  },
                  ErrorKind::kInternal),
              testing::HasSubstr("tensor large has 6 bytes instead of 3145728"));
  EXPECT_FALSE(std::filesystem::exists(scratch / "short"));
}

TEST(Safetensors, NeverOverwrites) {
  const Scratch scratch;
  scratch.write("w", "kept");
  EXPECT_THAT(refusal([&] { harness::write_safetensors(scratch / "w", {}, {}); }),
              ::testing::HasSubstr("File exists"));
  EXPECT_EQ(read_file(scratch / "w"), "kept");
}

struct Broken {
  const char* header;
  const char* data;
  const char* message;
};

TEST(Safetensors, RefusesBrokenHeaders) {
  const Broken table[] = {
      {R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})", "abc", "1 bytes follow"},
      {R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})", "a", "cut short"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,2]}})", "ab", "needs 1 bytes"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})", "ab", "hole"},
      {R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
       "abc", "overlapping"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
       "ab", "appears twice"},
      {R"({"a":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "a",
       "appears twice"},
      {R"({"__metadata__":{"k":"v","k":"w"}})", "", "appears twice"},
      {R"({"__metadata__":{"k":1}})", "", "a number where it does not belong"},
      {R"({"__metadata__":{"k":{"z":"w"}}})", "", "an object where it does not belong"},
      {R"({"a":{"dtype":"Q9","shape":[1],"data_offsets":[0,1]}})", "a", "does not support;"},
      {R"({"a":{"dtype":"F8_E4M3","shape":[1],"data_offsets":[0,1]}})", "a", "does not support;"},
      {R"({"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}})", "a", "negative number -1"},
      {R"({"a":{"dtype":"U8","shape":[1.0],"data_offsets":[0,1]}})", "a", "whole number"},
      {R"({"a":{"dtype":"U8","shape":[1e400],"data_offsets":[0,1]}})", "a", "not valid JSON"},
      {R"({"a":{"dtype":"U8","shape":[2,9223372036854775807],"data_offsets":[0,1]}})", "a",
       "impossible dimension"},
      {R"({"a":{"dtype":"F32","shape":[4611686018427387904,0],"data_offsets":[0,0]}})", "",
       "impossible dimension"},
      {R"({"a":{"dtype":"F64","shape":[36028797018963968,0,2],"data_offsets":[0,0]}})", "", "2^56"},
      {R"({"a":{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", "", "2^56"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[1,0]}})", "a", "hole"},
      {R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,18446744073709551615]}})", "",
       "needs 0 bytes"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1,2]}})", "a", "third number"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0]}})", "a", "two data_offsets"},
      {R"({"a":{"dtype":"U8","shape":[1]}})", "a", "two data_offsets"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":1}})", "a",
       "unknown field \"x\""},
      {R"({"a":{"dtype":"U8","shape":[[1]],"data_offsets":[0,1]}})", "a", "a list where"},
      {R"({"a":{"dtype":1,"shape":[1],"data_offsets":[0,1]}})", "a", "a number where"},
      {R"({"a":{"dtype":"U8","shape":null,"data_offsets":[0,1]}})", "a", "null where"},
      {R"({"a":[]})", "", "a list where"},
      {R"({"a":"b"})", "", "a string where"},
      {R"({"":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "a", "empty"},
      {R"({"a\u0000":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "a", "NUL"},
      {R"({"\u001b[31ma":{"dtype":"U8","shape":[7],"data_offsets":[0,1]}})", "a", "\\x1b[31ma"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]})", "a", "not valid JSON"},
      {R"({} trailing)", "", "not valid JSON"},
      {"{\"\xff\":{}}", "", "not valid JSON"},
      {"[]", "", "does not begin"},
      {"  {}", "", "does not begin"},
  };
  for (const Broken& broken : table)
    EXPECT_THAT(reason(file_of(broken.header, broken.data)), ::testing::HasSubstr(broken.message))
        << broken.header;
}

TEST(Safetensors, RefusesForeignFilesAndImpossibleLengths) {
  EXPECT_THAT(reason(""), ::testing::HasSubstr("too few"));
  EXPECT_THAT(reason("1234567"), ::testing::HasSubstr("too few"));
  EXPECT_THAT(reason(std::string("PK\x03\x04\0\0\x08\x08\0\0\0\0", 12)),
              ::testing::HasSubstr("zip archive"));
  EXPECT_THAT(reason("\x80\x04\x95 pickled"), ::testing::HasSubstr("pickle"));
  EXPECT_THAT(reason(std::string("\0\0\0\0\0\0\0\x80{}", 10)),
              ::testing::HasSubstr("header length 9223372036854775808"));
  EXPECT_THAT(reason(std::string("\0\0\0\0\0\0\0\0{}", 10)),
              ::testing::HasSubstr("does not begin"));
  EXPECT_THAT(reason(std::string("\x40\0\0\0\0\0\0\0{}", 10)),
              ::testing::HasSubstr("header length 64"));
  std::string deep = "{\"a\":";
  deep.append(100000, '[');
  EXPECT_THAT(reason(file_of(deep, "")), ::testing::HasSubstr("a list where"));
  // 0x0280 = 640 looks like a pickle's first bytes but is a legal header length.
  std::string padded = "{}";
  padded.resize(640, ' ');
  EXPECT_TRUE(parse_safetensors(bytes_of(file_of(padded, "")), "x").tensors.empty());
}

std::string many_tensors(std::size_t count) {
  std::string header = "{";
  for (std::size_t i = 0; i < count; ++i)
    header += fmt::format(R"({}"model.layers.{:07}.mlp.experts.down_proj.weight":{{"dtype":"F32",)"
                          R"("shape":[0],"data_offsets":[0,0]}})",
                          i == 0 ? "" : ",", i);
  return file_of(header + "}", "");
}

TEST(Safetensors, AHeaderOfTooManyTensorsOrEntriesIsRefused) {
  constexpr std::size_t kMost = std::size_t{1} << 18;
  const std::string most = many_tensors(kMost), more = many_tensors(kMost + 1);
  const TensorTable table = parse_safetensors(bytes_of(most), "x");
  EXPECT_EQ(table.tensors.size(), kMost);
  for (const Tensor& tensor : table.tensors) EXPECT_EQ(table.find(tensor.name), &tensor);
  EXPECT_EQ(table.find("model.layers"), nullptr);
  EXPECT_THAT(reason(more), ::testing::HasSubstr("more than 262144 tensors"));
  std::string metadata = R"({"__metadata__":{"k":"")";
  for (int i = 0; i < 1 << 16; ++i) metadata += fmt::format(R"(,"{}":"")", i);
  EXPECT_THAT(reason(file_of(metadata + "}}", "")),
              ::testing::HasSubstr("more than 65536 metadata entries"));
}

TEST(Safetensors, SurvivesDamage) {
  const std::string good = file_of(
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},"b":{"dtype":"U8","shape":[3],"data_offsets":[16,19]}})",
      "0123456789abcdefxyz");
  mutate(good, 3000, [](const std::string& bad) {
    const TensorTable table = parse_safetensors(bytes_of(bad), "x");
    std::size_t sum = 0;
    for (const Tensor& tensor : table.tensors)
      for (const std::byte byte : tensor.bytes) sum += static_cast<std::size_t>(byte);
    EXPECT_LE(sum, 255 * bad.size());
  });
}

}  // namespace
}  // namespace trireme::formats::safetensors_test
