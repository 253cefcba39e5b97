#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include "tests/formats/scratch.h"
#include "tests/harness/write_safetensors.h"
#include "trireme/base/hash.h"
#include "trireme/base/json.h"
#include "trireme/formats/checkpoint_files.h"
#include "trireme/formats/safetensors.h"

namespace trireme::formats::manifest_test {
namespace {

using ::testing::HasSubstr;

Manifest example() {
  return {.step = 40,
          .world = 2,
          .layout = {{"dp_shard", 2}, {"tp", 1}},
          .consumed_samples = 320,
          .dataset_digest = "0123",
          .vocabulary = "4567",
          .eval_loss = 3.25,
          .job = "run:\n  steps: 80\n",
          .train_state = R"({"lr":0.001,"loss_scale":65536.0})",
          .build = "0.1.0 1.13.1",
          .base = "00ff00ff00ff00ff",
          .files = {{.name = "shard-0.safetensors", .size = 10, .hash = 1, .blocks = {7}},
                    {.name = "shard-1.safetensors",
                     .size = (1 << 20) + 1,
                     .hash = ~std::uint64_t{0},
                     .blocks = {8, 9}}},
          .units = {{.name = "block.0",
                     .numel = 10,
                     .parameters = {{.name = "w", .shape = {2, 3}, .offset = 0},
                                    {.name = "b", .shape = {3}, .offset = 6}},
                     .slices = {{"shard-1.safetensors", "u0.param", "param", 5, 5},
                                {"shard-0.safetensors", "u0.param", "param", 0, 5},
                                {"shard-0.safetensors", "u0.m", "exp_avg", 0, 10}}}}};
}

// The text with `from` replaced and a digest that fits again, as a forger would write it.
std::string forged(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
  const std::size_t body = text.rfind(",\n \"digest\"");
  return text.replace(text.rfind(": \"") + 3, 16,
                      hex64(hash64(std::string_view(text).substr(0, body))));
}

TEST(Manifest, PrintsAndParses) {
  const std::string text = print(example());
  const Manifest read = parse_manifest(text, "m");
  EXPECT_EQ(print(read), text);
  EXPECT_EQ(read.step, 40);
  EXPECT_EQ(read.world, 2);
  EXPECT_EQ(read.consumed_samples, 320);
  EXPECT_EQ(read.job, example().job);
  EXPECT_EQ(read.train_state, example().train_state);
  EXPECT_EQ(read.base, example().base);
  EXPECT_EQ(read.files[1].hash, ~std::uint64_t{0});
  EXPECT_EQ(read.files[1].blocks, (std::vector<std::uint64_t>{8, 9}));
  ASSERT_EQ(read.layout.size(), 2u);
  EXPECT_EQ(read.layout[0].axis, "dp_shard");
  EXPECT_EQ(read.layout[0].degree, 2);
  EXPECT_EQ(read.eval_loss, 3.25);
  EXPECT_EQ(read.units[0].parameters[0].shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(read.units[0].slices[0].offset, 5);
}

TEST(Manifest, RefusesForgeries) {
  const std::string text = print(example());
  const std::string huge = "9223372036854775807";
  const std::string table[][3] = {
      {"\"version\": 2", "\"version\": 3", "version 3, this build reads versions 1 to 2"},
      {"\"version\": 2", "\"version\": 1", "unknown key \"blocks\""},
      {"\"dp_shard\": 2", "\"dp_shard\": 3", "do not multiply to a world of 2"},
      {"\"dp_shard\": 2", "\"dp_shard\": 0", "dp_shard: is 0"},
      {"\"dp_shard\": 2", "\"dp_shard\": " + huge, "do not multiply"},
      {"\"dp_shard\": 2", "\"tp\": 2", "appears twice"},
      {"\"blocks\": \"0000000000000007\"", "\"blocks\": \"\"", "has no hashes of blocks"},
      {"\"blocks\": \"0000000000000007\"", "\"blocks\": \"000000000000007\"", "16 hex digits"},
      {"\"blocks\": \"0000000000000007\"", "\"blocks\": \"00000000000000070000000000000007\"",
       "has hashes of 2 blocks, 1 are needed"},
      {"\"eval_loss\": 3.25", "\"eval_loss\": \"3\"", "a finite number is needed"},
      {"\"eval_loss\": 3.25", "\"eval_loss\": 1e400", "JSON"},
      {"trireme.checkpoint", "other", "format is \"other\""},
      {"\"step\": 40", "\"step\": -1", "step: is -1"},
      {"\"step\": 40", "\"step\": 4.5", "whole number"},
      {"\"step\": 40", "\"step\": 18446744073709551615", "must be in"},
      {"\"world\": 2", "\"world\": 0", "world: is 0"},
      {"\"world\": 2", "\"word\": 2", "unknown key \"word\""},
      {"\"world\": 2", "\"step\": 2", "appears twice"},
      {"\"world\": 2", "\"world\": \"2\"", "whole number"},
      {"\"name\": \"shard-0.safetensors\"", "\"name\": \"../shard-0.safetensors\"",
       "may not name a file"},
      {"\"name\": \"shard-0.safetensors\"", "\"name\": \"..\"", "may not name a file"},
      {"\"name\": \"shard-0.safetensors\"", "\"name\": \"a\\u0000b\"", "may not name a file"},
      {"\"name\": \"shard-0.safetensors\"", "\"name\": \"\\u001b[2J\"", "\"\\x1b[2J\""},
      {"\"name\": \"shard-0.safetensors\"", "\"name\": \"manifest.json\"", "may not name a file"},
      {"\"name\": \"shard-0.safetensors\"", "\"name\": \"shard-1.safetensors\"", "appears twice"},
      {"\"name\": \"shard-0.safetensors\"", "\"name\": \"shard-2.safetensors\"",
       "not among the files"},
      {"\"size\": 10", "\"size\": -10", "size: is -10"},
      {"\"xxh3\": \"0000000000000001\"", "\"xxh3\": \"1\"", "16 hex digits"},
      {"\"numel\": 10", "\"numel\": 11", "end at 10, 11 elements are needed"},
      {"\"numel\": 10", "\"numel\": " + huge, "must be in"},
      {"\"numel\": 10", "\"numel\": 10, \"tp\": 2, \"tp_rank\": 1", "part 1 of 2 where part 0"},
      {"\"numel\": 10", "\"numel\": 10, \"tp\": 2, \"tp_rank\": 0", "2"},
      {"\"numel\": 10", "\"numel\": 10, \"tp\": 1048576, \"tp_rank\": 0", "1048576"},
      {"\"numel\": 10", "\"numel\": 10, \"tp\": 2", "tp_rank"},
      {"\"offset\": 5", "\"offset\": 6", "leave a hole at element 5"},
      {"\"offset\": 5", "\"offset\": 4", "overlap at element 4"},
      {"\"length\": 10", "\"length\": 72057594037927936", "beyond the unit's 10"},
      {"\"kind\": \"exp_avg\"", "\"kind\": \"exp_avg_sq\",\"x\":0", "unknown key \"x\""},
      {"\"tensor\": \"u0.m\"", "\"tensor\": \"u0.param\"", "holds two slices"},
      {"\"offset\": 6", "\"offset\": 5", "overlap another"},
      {"\"offset\": 6", "\"offset\": 8", "leave the unit's 10"},
      {"\"name\": \"b\"", "\"name\": \"w\"", "appears twice"},
      {"   2,\n", "   72057594037927936,\n", "2^56"},
      {"\"train_state\": {", "\"train_state\": 1, \"job2\": {", "unknown key \"job2\""},
  };
  for (const auto& [from, to, message] : table)
    EXPECT_THAT(refusal([&] { parse_manifest(forged(text, from, to), "m"); }), HasSubstr(message))
        << to;
}

// What builds before wrote: without hashes of blocks, without a layout.
TEST(Manifest, ReadsVersion1) {
  Json json = Json::parse(print(example()));
  json["version"] = 1;
  for (const char* later : {"layout", "eval_loss", "digest"}) json.erase(later);
  for (Json& file : json["files"]) file.erase("blocks");
  std::string text = json.dump(1);
  text.resize(text.size() - 2);
  text += ",\n \"digest\": \"" + hex64(hash64(text)) + "\"\n}\n";
  const Manifest read = parse_manifest(text, "m");
  EXPECT_EQ(read.step, 40);
  EXPECT_TRUE(read.layout.empty());
  EXPECT_FALSE(read.eval_loss);
  EXPECT_TRUE(read.files[1].blocks.empty());
  EXPECT_EQ(read.files[1].hash, ~std::uint64_t{0});
}

TEST(Manifest, EveryFlippedBitIsRefused) {
  const std::string text = print(example());
  for (std::size_t bit = 0; bit < 8 * text.size(); ++bit) {
    std::string bad = text;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_THROW(parse_manifest(bad, "m"), Error) << "bit " << bit;
  }
  for (std::size_t size = 0; size < text.size(); ++size)
    EXPECT_THROW(parse_manifest(text.substr(0, size), "m"), Error) << size;
}

TEST(Manifest, SurvivesForgedDamage) {
  const std::string text = print(example());
  const std::string body = text.substr(0, text.rfind(",\n \"digest\""));
  mutate(body, 2000, [](const std::string& bad) {
    parse_manifest(bad + ",\n \"digest\": \"" + hex64(hash64(bad)) + "\"\n}\n", "m");
  });
}

// A directory that verifies: one unit in two shards.
Manifest write_checkpoint(const Path& directory, std::int64_t step) {
  std::filesystem::create_directories(directory);
  Manifest manifest{.step = step, .world = 2, .units = {{.name = "u", .numel = 6}}};
  const std::string data(16, static_cast<char>(step));
  for (int rank = 0; rank < 2; ++rank) {
    const std::string name = "shard-" + std::to_string(rank) + ".safetensors";
    const std::int64_t length = rank == 0 ? 4 : 2;
    const Tensor tensor{.name = "u.param",
                        .dtype = DType::kF32,
                        .shape = {length},
                        .bytes = bytes_of(data).first(static_cast<std::size_t>(length) * 4)};
    const FileDigest digest = harness::write_safetensors(directory / name, {&tensor, 1},
                                                         {{"step", std::to_string(step)}});
    manifest.files.push_back(
        {.name = name, .size = digest.size, .hash = digest.hash, .blocks = digest.mib_hashes});
    manifest.units[0].slices.push_back({name, "u.param", "param", rank == 0 ? 0 : 4, length});
  }
  replace_file(directory / kManifestName, print(manifest));
  return manifest;
}

TEST(Checkpoint, VerifiesEveryByte) {
  const Scratch scratch;
  write_checkpoint(scratch / "step-5", 5);
  EXPECT_EQ(verify_checkpoint(scratch / "step-5").step, 5);
  const std::string name = "step-5/shard-1.safetensors";
  const std::string good = read_file(scratch / name);
  for (std::size_t at = 0; at < good.size(); ++at) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 16);
    scratch.write(name, bad);
    EXPECT_THAT(refusal([&] { verify_checkpoint(scratch / "step-5"); }),
                HasSubstr("shard-1.safetensors: bytes 0 to 104 are not those"));
  }
}

TEST(Checkpoint, RefusesBrokenDirectoriesByFile) {
  const Scratch scratch;
  write_checkpoint(scratch / "step-4", 4);
  const Path four = scratch / "step-4/shard-0.safetensors";
  const auto broken = [&](const std::function<void(const Path&)>& damage) {
    const Path directory = scratch / "step-5";
    std::filesystem::remove_all(directory);
    write_checkpoint(directory, 5);
    damage(directory);
    return refusal([&] { verify_checkpoint(directory); });
  };
  using std::filesystem::remove;
  EXPECT_THAT(broken([](const Path& d) { remove(d / "shard-1.safetensors"); }),
              HasSubstr("shard-1.safetensors: is missing"));
  EXPECT_THAT(
      broken([](const Path& d) { std::ofstream(d / "shard-0.safetensors", std::ios::app) << "x"; }),
      HasSubstr("the manifest says"));
  EXPECT_THAT(broken([](const Path& d) { std::ofstream(d / "shard-0.safetensors"); }),
              HasSubstr("has 0 bytes"));
  EXPECT_THAT(broken([&](const Path& d) {
                std::filesystem::copy_file(four, d / "shard-0.safetensors",
                                           std::filesystem::copy_options::overwrite_existing);
              }),
              HasSubstr("it is of step \"4\", the manifest of step 5"));
  EXPECT_THAT(broken([](const Path& d) {
                std::filesystem::copy_file(d / "shard-0.safetensors", d / "extra.safetensors");
              }),
              HasSubstr("extra.safetensors: the manifest does not know"));
  EXPECT_THAT(broken([](const Path& d) {
                remove(d / "shard-0.safetensors");
                std::filesystem::create_directory(d / "shard-0.safetensors");
              }),
              HasSubstr("not a regular file"));
  EXPECT_THAT(broken([](const Path& d) {
                remove(d / "shard-0.safetensors");
                ::mkfifo((d / "shard-0.safetensors").c_str(), 0600);
              }),
              HasSubstr("not a regular file"));
  EXPECT_THAT(broken([&](const Path& d) {
                remove(d / "shard-0.safetensors");
                std::filesystem::create_symlink(four, d / "shard-0.safetensors");
              }),
              HasSubstr("not a regular file"));
  EXPECT_THAT(broken([](const Path& d) {
                remove(d / "shard-0.safetensors");
                std::filesystem::create_symlink("/dev/zero", d / "shard-0.safetensors");
              }),
              HasSubstr("not a regular file"));
  for (const char* target : {"/dev/zero", "elsewhere"})
    EXPECT_THAT(broken([&](const Path& d) {
                  std::filesystem::rename(d / "manifest.json", d / "elsewhere");
                  std::filesystem::create_symlink(target, d / "manifest.json");
                }),
                HasSubstr("manifest.json: is a symbolic link, not a regular file"));
  EXPECT_THAT(broken([](const Path& d) {
                remove(d / "manifest.json");
                ::mkfifo((d / "manifest.json").c_str(), 0600);
              }),
              HasSubstr("manifest.json: is not a regular file"));
  EXPECT_THAT(broken([](const Path& d) {
                std::filesystem::rename(d / "shard-0.safetensors", d / "x");
                std::filesystem::rename(d / "shard-1.safetensors", d / "shard-0.safetensors");
                std::filesystem::rename(d / "x", d / "shard-1.safetensors");
              }),
              HasSubstr("has 104 bytes, the manifest says 120"));
  // A hole of a terabyte costs nothing to make and must cost nothing to refuse.
  EXPECT_THAT(broken([](const Path& d) {
                std::filesystem::resize_file(d / "shard-0.safetensors", std::uintmax_t{1} << 40);
              }),
              HasSubstr("has 1099511627776 bytes, the manifest says 120"));
  EXPECT_THAT(broken([](const Path& d) { remove(d / "manifest.json"); }),
              HasSubstr("not a complete checkpoint"));
  EXPECT_THAT(broken([](const Path& d) {
                Manifest m = read_manifest(d);
                m.units[0].slices[1].tensor = "v";
                replace_file(d / kManifestName, print(m));
              }),
              HasSubstr("has no tensor \"v\""));
  EXPECT_THAT(broken([](const Path& d) {
                Manifest m = read_manifest(d);
                m.units[0].slices[0].length = 3;
                m.units[0].slices[1].offset = 3;
                m.units[0].slices[1].length = 3;
                replace_file(d / kManifestName, print(m));
              }),
              HasSubstr("has 4 elements, the manifest says 3"));
}

TEST(Checkpoint, NewestUsableIsFoundAndNewerAreExplained) {
  const Scratch scratch;
  EXPECT_FALSE(newest_checkpoint(scratch / "absent"));
  EXPECT_TRUE(list_checkpoints(scratch / "absent").empty());
  for (const int step : {9, 10, 100, 30})
    write_checkpoint(scratch / ("step-" + std::to_string(step)), step);
  for (const char* other : {"step-", "step-x", "step-007", "step--5", "tmp", "step-200.tmp"})
    std::filesystem::create_directory(scratch / other);
  EXPECT_EQ(newest_checkpoint(scratch.path())->manifest.step, 100);
  std::filesystem::remove(scratch / "step-100/manifest.json");
  scratch.write("step-30/shard-0.safetensors", "bad");
  const auto newest = newest_checkpoint(scratch.path());
  EXPECT_EQ(newest->path, scratch / "step-10");
  ASSERT_EQ(newest->refused.size(), 2u);
  EXPECT_THAT(newest->refused[0].problem, HasSubstr("not a complete checkpoint"));
  EXPECT_THAT(newest->refused[1].problem, HasSubstr("shard-0.safetensors: has 3 bytes"));
  const auto listed = list_checkpoints(scratch.path());
  ASSERT_EQ(listed.size(), 4u);
  EXPECT_EQ(listed[0].step, 100);
  EXPECT_NE(listed[0].problem, "");
  EXPECT_EQ(listed[1].problem, "") << "the manifest alone is sound";
  std::filesystem::remove(scratch / "step-10/manifest.json");
  std::filesystem::rename(scratch / "step-9", scratch / "step-8");
  EXPECT_THAT(refusal([&] { newest_checkpoint(scratch.path()); }),
              HasSubstr("none of 4 checkpoints"));
}

}  // namespace
}  // namespace trireme::formats::manifest_test
