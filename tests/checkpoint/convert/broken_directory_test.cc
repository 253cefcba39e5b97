// Paths that are no model directory, and directories with random damage: one clear line or a checkpoint, never a crash.
#include <random>

#include "tests/checkpoint/convert/broken.h"

namespace trireme::convert::broken_directory_test {
namespace {

namespace fs = std::filesystem;

TEST(BrokenDirectory, PathsAreNamed) {
  const formats::Scratch scratch;
  write(published("llama"), scratch / "good");
  const auto copy = [&](const char* name, const char* without) {
    fs::copy(scratch / "good", scratch / name);
    fs::remove(scratch / name / without);
    return scratch / name / without;
  };
  fs::create_directory(copy("nested", kConfig));
  fs::create_symlink("config.json", copy("loop", kConfig));
  fs::create_symlink("../blobs/0123", copy("dangling", kModel));
  fs::create_directory(copy("folder", kModel));
  const std::pair<Path, std::string> cases[] = {
      {scratch / "nowhere", "nowhere/config.json: cannot open: No such file"},
      {scratch / "good/config.json", "config.json/config.json: cannot open: Not a directory"},
      {scratch / "nested", "nested/config.json: is not a regular file"},
      {scratch / "loop", "loop/config.json: cannot open: Too many levels"},
      {scratch / "dangling",
       "dangling/model.safetensors: is a link to ../blobs/0123, which is not there"},
      {scratch / "folder", "folder/model.safetensors: is not a regular file"}};
  for (const auto& [path, says] : cases) {
    const std::string message = refusal_of(path, scratch / "out");
    expect_clear(message);
    EXPECT_THAT(message, testing::HasSubstr(says));
  }
}

// Another value in place of one of a JSON file, or other bytes.
class Vandal {
 public:
  std::string damaged(const std::string& bytes) {
    if (bytes.starts_with('{') && below(2) == 0) return revalued(bytes);
    std::string bad = bytes;
    const std::size_t at = below(bad.size());
    switch (below(5)) {
      case 0: bad[at] = static_cast<char>(random_()); break;
      case 1: bad[at] = static_cast<char>(bad[at] ^ (1 << below(8))); break;
      case 2: bad.resize(at); break;
      case 3: bad.insert(at, 1 + below(9), static_cast<char>(random_())); break;
      default: bad.erase(at, 1 + below(9));
    }
    return bad;
  }
  // random() % count is the same on every machine.
  std::size_t below(std::size_t count) { return random_() % count; }

 private:
  std::string revalued(const std::string& bytes) {
    static const Json kValues[] = {
        nullptr,       true,           0,      -1,          3, 1000000000, 1.5, -1e300, "", "x",
        Json::array(), Json::object(), {1, 2}, {{"a", "b"}}};
    Json flat = Json::parse(bytes).flatten();
    auto at = flat.begin();
    for (std::size_t steps = below(flat.size()); steps > 0; --steps) ++at;
    Json json = Json::parse(bytes);
    json[Json::json_pointer(at.key())] = kValues[below(std::size(kValues))];
    return json.dump();
  }

  std::mt19937_64 random_{20261130};
};

TEST(BrokenDirectory, RandomDamageIsRefusedOrRead) {
  constexpr int kRounds = 300;
  const formats::Scratch scratch;
  const Files models[] = {published("llama"), published("gemma3_text"), published("gpt_neox"),
                          published(with_tower(config::Family::kVit))};
  const Path from = scratch / "model", out = scratch / "out";
  Vandal vandal;
  int refused = 0;
  for (int round = 0; round < kRounds; ++round) {
    const Files& good = models[vandal.below(std::size(models))];
    auto file = good.begin();
    for (std::size_t steps = vandal.below(good.size()); steps > 0; --steps) ++file;
    Files bad = good;
    bad[file->first] = vandal.damaged(file->second);
    write(bad, from);
    const std::string message = refusal_of(from, out);
    SCOPED_TRACE(fmt::format("round {}, {}: {}", round, file->first, message));
    expect_clear(message);
    if (!message.empty()) {
      ++refused;
      EXPECT_NE(message.find(from.string()), message.npos) << "names no file";
    }
    EXPECT_NE(fs::exists(out), !message.empty()) << "is half written, or not";
    fs::remove_all(from);
    fs::remove_all(out);
  }
  EXPECT_GT(refused, kRounds / 2);
  EXPECT_LT(refused, kRounds) << "values of tensors are free";
}

}  // namespace
}  // namespace trireme::convert::broken_directory_test
