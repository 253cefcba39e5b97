// Generation by a model whose rotary frequencies differ for short and for long texts (longrope), with keys in a cache.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/apps/program.h"

#if TRIREME_HAS_WORKER

#include <filesystem>
#include <nlohmann/json.hpp>

#include "trireme/base/fs.h"
#include "trireme/base/json.h"

namespace trireme::app::longrope_test {
namespace {

using ::testing::HasSubstr;

TEST(LongRope, ATextHasTheFrequenciesOfItsWholeLength) {
  const Desk desk;
  std::string text;
  for (int i = 0; i < 400; ++i) text += i % 3 == 0 ? "the oars of a trireme " : "pull in three ";
  desk.write("words.txt", text);
  desk.write("job.yaml",
             "model: {family: llama, layers: 1, hidden: 16, heads: 2, seq_len: 64,\n"
             "        rope_scaling: 'longrope factor=4 original=16 short=1,1.5 long=2,3'}\n"
             "llama: {rotary_fraction: 0.5}\n"
             "data: {path: words.txt, tokenizer: bytes}\noptim: {lr: 1e-2}\n"
             "run: {steps: 5, global_batch: 4}\n");
  const auto done = [&](const std::vector<std::string>& arguments) {
    const Result result = desk.run(arguments);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.out;
  };
  done({"train", "job.yaml", "--out", "run"});
  done({"checkpoint", "convert", "run", "theirs"});
  // The same model with other factors of long texts.
  std::filesystem::copy(desk / "theirs", desk / "other");
  Json config = Json::parse(read_file(desk / "other/config.json"));
  EXPECT_EQ(config.at("model_type"), "phi3");
  config["rope_scaling"]["long_factor"] = {60, 0.01};
  replace_file(desk / "other/config.json", config.dump());
  const auto generate = [&](const char* model, const char* prompt, const char* tokens) {
    return std::vector<std::string>{"generate", "--checkpoint",  model,  "--tokenizer",
                                    "bytes",    "--prompt",      prompt, "--tokens",
                                    tokens,     "--temperature", "0"};
  };
  EXPECT_EQ(done(generate("theirs", "the oars", "8")), done(generate("other", "the oars", "8")));
  desk.write("short.jsonl", R"({"query": "the oars", "choices": ["of a", "pull in"], "gold": 0})");
  desk.write("long.jsonl",
             R"({"query": "the oars of a trireme", "choices": ["pull", "the oars"], "gold": 0})");
  for (const char* model : {"theirs", "other"})
    std::filesystem::copy(desk / "run/vocabulary.json", desk / model);
  const auto likelihoods = [&](const char* model, const char* questions) {
    done({"evaluate", model, "--choices", questions, "--json", "found.json"});
    return Json::parse(read_file(desk / "found.json")).at("answers");
  };
  EXPECT_EQ(likelihoods("theirs", "short.jsonl"), likelihoods("other", "short.jsonl"));
  EXPECT_NE(likelihoods("theirs", "long.jsonl"), likelihoods("other", "long.jsonl"));
  const Result crossing = desk.run(generate("run", "the oars", "9"));
  EXPECT_EQ(crossing.exit_code, 2) << crossing.out;
  EXPECT_THAT(crossing.err,
              HasSubstr("a prompt of 8 tokens and --tokens 9 cross the 16 tokens at which longrope "
                        "(model.rope_scaling) changes its frequencies; needs a text that stays on "
                        "one side: choose --tokens 8 or less, or a prompt of more than 16 tokens"));
}

}  // namespace
}  // namespace trireme::app::longrope_test

#endif
