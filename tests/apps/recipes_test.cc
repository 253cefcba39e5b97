// Every recipe begins with the command that runs it, and that command works.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>

#include "tests/apps/program.h"
#include "trireme/base/json.h"
#include "trireme/config/parse.h"

namespace trireme::app {
namespace {

namespace fs = std::filesystem;

std::vector<Path> recipe_files() {
  std::vector<Path> files;
  for (const auto& entry : fs::recursive_directory_iterator(Path(TRIREME_SOURCE_DIR) / "recipes"))
    if (entry.is_regular_file()) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

// Words of the lines "# Run: ..." among the comments that a recipe begins with.
std::vector<std::vector<std::string>> run_lines(const Path& recipe) {
  constexpr std::string_view kRun = "# Run: ";
  std::vector<std::vector<std::string>> found;
  std::istringstream text(read_file(recipe));
  for (std::string line; std::getline(text, line) && line.starts_with('#');) {
    if (!line.starts_with(kRun)) continue;
    std::istringstream words(line.substr(kRun.size()));
    found.emplace_back();
    for (std::string word; words >> word;) found.back().push_back(word);
  }
  return found;
}

// What says of a command that trains whether it would: explain, of the same job on as many ranks.
std::vector<std::string> explaining(const std::vector<std::string>& words) {
  std::vector<std::string> explained = {"explain"};
  int ranks = 0;
  for (std::size_t i = 1; i < words.size(); ++i) {
    const bool valued = words[i].starts_with("--") && i + 1 < words.size();
    if (words[i] == "--nnodes" || words[i] == "--nproc-per-node") {
      ranks = std::max(ranks, 1) * std::stoi(words[i + 1]);
      ++i;
    } else if (valued && (words[i] == "--out" || words[i] == "--rdzv-endpoint" ||
                          words[i] == "--token-file")) {
      ++i;
    } else if (words[i] != "--" && words[i] != "train") {
      explained.push_back(words[i]);
    }
  }
  if (ranks > 0) explained.insert(explained.end(), {"--ranks", std::to_string(ranks)});
  return explained;
}

// Runs or explains what a line says; of a job in phases each phase.
void exercise(const Desk& desk, const Path& recipe, std::vector<std::string> words) {
  ASSERT_EQ(words.front(), "trireme");
  words.erase(words.begin());
  const std::string command = words.front();
  std::vector<std::vector<std::string>> runs;
  if (command == "train" || command == "launch") {
    for (const config::Phase& phase : config::load_phases(recipe)) {
      runs.push_back(explaining(words));
      if (!phase.name.empty()) runs.back().insert(runs.back().end(), {"--phase", phase.name});
      // Text is not read, so that a vocabulary which it would decide must be named.
      if (phase.job.model.vocab == 0 && phase.job.data.source == config::DataSource::kText)
        runs.back().insert(runs.back().end(), {"--set", "model.vocab=1024"});
    }
  } else if (command == "sweep") {
    // Sweeps of `bench` compare nothing but what it measures, and take minutes: their job alone is planned here.
    const std::string text = read_file(recipe);
    const std::size_t begin = text.find("\njob: ") + 6;
    const Path job = recipe.parent_path() / text.substr(begin, text.find('\n', begin) - begin);
    words.insert(words.end(),
                 {"--set", "run.steps=1", "--set", "optim.warmup_steps=0", "--out", "sweep"});
    if (text.find("\nmetrics: ") == text.npos)
      runs.push_back({"explain", job.string(), "--set", "model.vocab=1024"});
    else if (TRIREME_HAS_WORKER)
      runs.push_back(words);
  } else {
    ASSERT_TRUE(command == "explain" || command == "plan") << command;
    runs.push_back(words);
  }
  for (const std::vector<std::string>& run : runs) {
    const Result result = desk.run(run);
    EXPECT_EQ(result.exit_code, 0) << ::testing::PrintToString(run) << "\n" << result.err;
  }
}

TEST(Recipes, EveryOneBeginsWithTheCommandThatRunsIt) {
  const Desk desk;
  fs::create_directory_symlink(Path(TRIREME_SOURCE_DIR) / "recipes", desk / "recipes");
  for (const Path& recipe : recipe_files()) {
    SCOPED_TRACE(recipe.string());
    const auto lines = run_lines(recipe);
    ASSERT_EQ(lines.size(), 1u);
    const std::string name = recipe.lexically_relative(TRIREME_SOURCE_DIR).string();
    EXPECT_THAT(lines[0], ::testing::Contains(name));
    exercise(desk, recipe, lines[0]);
    fs::remove_all(desk / "sweep");
  }
}

TEST(Recipes, TinyOnesFitOneTwoAndFourRanks) {
  const Desk desk;
  int seen = 0;
  for (const Path& recipe : recipe_files()) {
    const std::string stem = recipe.stem().string();
    if (recipe.parent_path().filename() != "recipes" || !stem.ends_with("_tiny")) continue;
    for (const char* ranks : {"1", "2", "4"}) {
      const Result result = desk.run({"explain", recipe.string(), "--ranks", ranks});
      EXPECT_EQ(result.exit_code, 0) << stem << " on " << ranks << ": " << result.err;
    }
    ++seen;
  }
  EXPECT_GE(seen, 11);
}

TEST(Recipes, OfPublishedSizesHaveTheirParameters) {
  const Desk desk;
  // CLIP ViT-L/14-336, a projector of two layers and Llama's 7B and 13B (Liu et al. 2023).
  for (const auto& [name, parameters] : {std::pair("vlm_7b", "7,05"),
                                         {"vlm_13b", "13,3"},
                                         {"hvjepa_vitg", "2,07"},
                                         {"vjepa_vitl_cooldown", "629,8"}}) {
    const Result result =
        desk.run({"explain", std::string(TRIREME_SOURCE_DIR) + "/recipes/" + name + ".yaml",
                  "--ranks", "8"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.out, ::testing::ContainsRegex(std::string("all +[0-9]+ +") + parameters));
  }
}

// Names, shapes and types as in a published header: ten mask tokens in one tensor.
TEST(Recipes, OfVjepaAreListedAsWhatConvertWouldWrite) {
  const Desk desk;
  struct Listed {
    const char* recipe;
    std::size_t tensors;  // 16 of a block; 4 around the encoder's, 7 around the predictor's
    std::int64_t elements;
  };
  for (const Listed& one : {Listed{"vjepa_vitl", 16 * (24 + 12) + 4 + 7, 303885312 + 22086016},
                            Listed{"vjepa_vith", 16 * (32 + 12) + 4 + 7, 631648000 + 22282880},
                            Listed{"vjepa_vitg", 16 * (40 + 12) + 4 + 7, 1012173952 + 22381312},
                            Listed{"vjepa_vitl_cooldown", 16 * 36 + 4 + 7, 325971328}}) {
    const std::string file = fmt::format("{}/recipes/{}.yaml", TRIREME_SOURCE_DIR, one.recipe);
    const Result result = desk.run({"checkpoint", "convert", file, "--list", "--json", "-"});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const Json header = Json::parse(result.out);
    EXPECT_EQ(header.size(), one.tensors);
    std::int64_t elements = 0;
    for (const auto& [name, tensor] : header.items()) {
      EXPECT_EQ(tensor["dtype"], "F32") << name;
      std::int64_t count = 1;
      for (const auto& size : tensor["shape"]) count *= size.get<std::int64_t>();
      elements += count;
    }
    EXPECT_EQ(elements, one.elements) << one.recipe;
    EXPECT_EQ(header["predictor.embeddings.mask_tokens"]["shape"], Json({10, 1, 1, 384}));
  }
  EXPECT_TRUE(fs::is_empty(desk.path())) << "nothing is written";
  const std::string recipe = TRIREME_SOURCE_DIR "/recipes/vjepa_vitl.yaml";
  EXPECT_THAT(
      desk.run({"checkpoint", "convert", recipe, "--list", "--set", "jepa.mask_tokens=2"}).out,
      ::testing::HasSubstr("[2, 1, 1, 384]"));
  const Result text = desk.run({"checkpoint", "convert", recipe, "--list"});
  EXPECT_THAT(text.out, ::testing::ContainsRegex(
                            "encoder.layer.0.attention.query.weight +F32 +\\[1024, 1024\\]"));
  const auto refused = [&](const std::vector<std::string>& words) {
    const Result result = desk.run(words);
    EXPECT_EQ(result.exit_code, 2) << result.out;
    return result.err;
  };
  EXPECT_THAT(
      refused({"checkpoint", "convert", TRIREME_SOURCE_DIR "/recipes/hvjepa_tiny.yaml", "--list"}),
      ::testing::HasSubstr("has no model of Hugging Face's"));
  EXPECT_EQ(desk.run({"checkpoint", "convert", TRIREME_SOURCE_DIR "/recipes/clip_tiny.yaml",
                      "--list", "--set", "vision.activation=quick_gelu"})
                .exit_code,
            0);
  EXPECT_THAT(refused({"checkpoint", "convert", recipe}), ::testing::HasSubstr("OUT is missing"));
  EXPECT_THAT(refused({"checkpoint", "convert", recipe, "out", "--list"}),
              ::testing::HasSubstr("leave OUT=out out"));
  EXPECT_THAT(
      refused({"checkpoint", "convert", TRIREME_SOURCE_DIR "/recipes/vjepa_tiny.yaml", "--list"}),
      ::testing::HasSubstr("can have rotary_compat only"));
}

}  // namespace
}  // namespace trireme::app
