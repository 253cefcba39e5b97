// Beginning with weights, whoever wrote them: their keys, their vocabulary, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/apps/program.h"
#include "tests/apps/run_files.h"

#if TRIREME_HAS_WORKER

#include <filesystem>

#include "trireme/config/job.h"

namespace trireme::app::weights_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class Weights : public ::testing::Test {
 protected:
  Weights() {
    std::string numbers, words;
    for (int i = 0; i < 3000; ++i) {
      numbers += "value[" + std::to_string(i) + "] = " + std::to_string(i * i % 97) + ";\n";
      words += (i % 3 == 0 ? "the oars of a trireme " : "pull in three banks, ");
    }
    desk_.write("numbers.txt", numbers);
    desk_.write("words.txt", words);
    desk_.write(
        "job.yaml",
        "model: {family: llama, layers: 2, hidden: 32, heads: 4, kv_heads: 2, head_dim: 16,\n"
        "        qk_norm: true, seq_len: 32, rope_theta: 1e6, norm_eps: 1e-6}\n"
        "data: {path: numbers.txt, tokenizer: 'bpe:300'}\noptim: {lr: 1e-2}\n"
        "run: {steps: 60, global_batch: 8}\n");
    // What a person writes who begins with weights.
    desk_.write("tune.yaml",
                "model: {weights: base}\ndata: {path: numbers.txt}\n"
                "run: {steps: 1, global_batch: 8}\n");
  }
  void SetUp() override {
    const Result base = desk_.run({"train", "job.yaml", "--out", "base"});
    ASSERT_EQ(base.exit_code, 0) << base.err;
  }

  Result tune(const std::string& out, const std::vector<std::string>& sets,
              const std::vector<std::string>& more = {}) const {
    std::vector<std::string> arguments = {"train", "tune.yaml", "--out", out};
    for (const std::string& set : sets) arguments.insert(arguments.end(), {"--set", set});
    arguments.insert(arguments.end(), more.begin(), more.end());
    return desk_.run(arguments);
  }
  void tuned(const std::string& out, const std::vector<std::string>& sets,
             const std::vector<std::string>& more = {}) const {
    const Result result = tune(out, sets, more);
    EXPECT_EQ(result.exit_code, 0) << out << result.err;
  }
  void refused(const std::vector<std::string>& sets, const std::vector<std::string>& why,
               const std::vector<std::string>& more = {}) const {
    const Result result = tune("refused", sets, more);
    EXPECT_EQ(result.exit_code, 2) << result.err;
    expect_one_line(result.err);
    for (const std::string& part : why) EXPECT_THAT(result.err, HasSubstr(part));
    EXPECT_FALSE(std::filesystem::exists(desk_ / "refused"));
  }
  std::string first(const std::string& run) const { return trace(desk_ / run).at(0); }
  double first_loss(const std::string& run) const {
    return lines_of(desk_ / (run + "/metrics.jsonl")).at(0)["loss"].get<double>();
  }
  std::string written(const std::string& checkpoint,
                      const std::vector<std::string>& more = {}) const {
    std::vector<std::string> arguments = {"generate", "--checkpoint",  checkpoint,
                                          "--prompt", "value[12",      "--tokens",
                                          "24",       "--temperature", "0"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Result result = desk_.run(arguments);
    EXPECT_EQ(result.exit_code, 0) << checkpoint << result.err;
    return result.out;
  }

  Desk desk_;
};

TEST_F(Weights, BringTheirKeysAndTheirVocabulary) {
  tuned("again", {});
  const config::Job job = config::load_job(desk_ / "again/job.lock.yaml");
  EXPECT_EQ(job.model.family, config::Family::kLlama);
  EXPECT_EQ(job.model.rope_theta, 1e6);
  EXPECT_EQ(job.model.head_dim, 16);
  EXPECT_EQ(job.model.vocab, 300);
  EXPECT_EQ(job.model.weights, (desk_ / "base/checkpoints/step-60").string());
  EXPECT_EQ(job.data.tokenizer, (desk_ / "base/vocabulary.json").string());
  EXPECT_LT(first_loss("again"), 0.6 * first_loss("base"));
  EXPECT_EQ(read_file(desk_ / "again/vocabulary.json"), read_file(desk_ / "base/vocabulary.json"));
  // However the same vocabulary and weights are named, the run is the same.
  for (const char* tokenizer : {"base", "base/checkpoints/step-60", "base/vocabulary.json"}) {
    tuned("named", {std::string("data.tokenizer=") + tokenizer});
    EXPECT_EQ(first("named"), first("again")) << tokenizer;
    std::filesystem::remove_all(desk_ / "named");
  }
  tuned("step", {"model.weights=base/checkpoints/step-60"});
  EXPECT_EQ(first("step"), first("again"));
  const Result explained = desk_.run({"explain", "tune.yaml"});
  EXPECT_EQ(explained.exit_code, 0) << explained.err;
}

TEST_F(Weights, AnotherMeaningIsRefusedByKey) {
  refused({"model.rope_theta=10000", "model.norm_eps=1e-5"},
          {"model.rope_theta is 1000000 there and 10000 here",
           "model.norm_eps is 1e-06 there and 1e-05 here", "--allow model.norm_eps"});
  refused({"model.heads=8", "model.head_dim=8", "model.kv_heads=4"},
          {"model.heads is 4 there and 8 here", "model.head_dim is 16 there and 8 here"});
  refused({"model.heads=3"}, {"model.heads is 4 there and 3 here"});
  refused({"model.rope_theta=10000"}, {"model.rope_theta is"}, {"--allow", "model.norm_eps"});
  refused({}, {"--allow model.seq_len: this key is not compared"}, {"--allow", "model.seq_len"});
  tuned("same", {});
  tuned("allowed", {"model.rope_theta=10000"}, {"--allow", "model.rope_theta"});
  EXPECT_NE(first("allowed"), first("same"));
}

TEST_F(Weights, AnotherVocabularyIsRefusedByDigest) {
  refused({"data.path=words.txt", "data.tokenizer=bpe:280"},
          {"its vocabulary has digest", "(bpe of 300 ids)", "leave data.tokenizer out",
           "--allow data.tokenizer"});
  refused({"data.tokenizer=bytes"}, {"(bytes of 256 ids)"});
  tuned("other", {"data.path=words.txt", "data.tokenizer=bpe:280"}, {"--allow", "data.tokenizer"});

  const auto prepare = [&](const std::string& out, const std::string& tokenizer) {
    const Result result =
        desk_.run({"data", "prepare", "words.txt", "--out", out, "--tokenizer", tokenizer});
    EXPECT_EQ(result.exit_code, 0) << result.err;
  };
  prepare("others", "bpe:280");
  refused({"data.path=others"}, {"prepare the text again with --tokenizer", "base"});
  prepare("same", "base");
  tuned("dataset", {"data.path=same"});
  tuned("reused", {"data.path=words.txt", "data.tokenizer=same"});
  EXPECT_EQ(first("dataset"), first("reused"));
}

TEST_F(Weights, AreReadFromHuggingFaceDirectories) {
  const auto done = [&](const std::vector<std::string>& arguments) {
    const Result result = desk_.run(arguments);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.out;
  };
  EXPECT_THAT(done({"checkpoint", "convert", "base", "hf"}), HasSubstr("tokenizer.json"));
  EXPECT_THAT(done({"checkpoint", "convert", "hf", "back"}), HasSubstr("back/job.yaml"));
  tuned("ours", {});
  tuned("theirs", {"model.weights=hf"});
  tuned("converted", {"model.weights=back"});
  EXPECT_EQ(first("theirs"), first("ours"));
  EXPECT_EQ(first("converted"), first("ours"));
  done({"train", "back/job.yaml", "--out", "job", "--set", "data.path=numbers.txt", "--set",
        "run.steps=1", "--set", "run.global_batch=8", "--ranks", "2"});
  EXPECT_EQ(first("job"), first("ours"));
  refused({"model.weights=hf", "model.rope_theta=10000"}, {"model.rope_theta is 1000000 there"});
  refused({"model.weights=hf", "data.tokenizer=bytes"}, {"its vocabulary has digest"});

  const std::string text = written("base");
  EXPECT_EQ(written("hf"), text);
  EXPECT_EQ(written("back"), text);
  EXPECT_EQ(written("back/step-0", {"--tokenizer", "hf/tokenizer.json"}), text);
  done({"checkpoint", "reshard", "base", "cut", "--to", "tp=2"});
  EXPECT_EQ(written("cut/step-60"), text);

  // Adapters alone, on weights that are theirs.
  tuned("small", {"model.weights=hf", "lora.rank=2", "checkpoint.trainable_only=true"});
  written("small");
  std::string config = read_file(desk_ / "hf/config.json");
  desk_.write("hf/config.json", config + "\n");
  const Result changed = desk_.run({"generate", "--checkpoint", "small", "--prompt", "a"});
  EXPECT_EQ(changed.exit_code, 3);
  EXPECT_THAT(changed.err, HasSubstr("its run began with a checkpoint whose manifest has digest"));
}

TEST_F(Weights, ARunKeepsTheOnesItBeganWith) {
  const std::vector<std::string> adapters = {"lora.rank=2", "run.steps=4"};
  tuned("kept", adapters, {"--steps", "2"});
  ASSERT_EQ(desk_.run({"train", "job.yaml", "--out", "base", "--set", "run.steps=61"}).exit_code,
            0);
  tuned("kept", adapters, {"--steps", "3"});
  EXPECT_EQ(config::load_job(desk_ / "kept/job.lock.yaml").model.weights,
            (desk_ / "base/checkpoints/step-60").string());
  std::filesystem::remove_all(desk_ / "base");
  tuned("kept", adapters);
  EXPECT_EQ(trace(desk_ / "kept").size(), 4u);
  const Result fresh = tune("fresh", {});
  EXPECT_EQ(fresh.exit_code, 3);
  EXPECT_THAT(fresh.err, HasSubstr("model.weights=base: no such directory"));
}

TEST_F(Weights, AreNotTakenFromAnOlderCheckpointUnasked) {
  ASSERT_EQ(desk_.run({"train", "job.yaml", "--out", "base", "--set", "run.steps=61"}).exit_code,
            0);
  const auto refuse = [&](const std::string& why) {
    const Result result = tune("run", {});
    EXPECT_EQ(result.exit_code, 3) << why;
    for (const std::string& part :
         {std::string("its newest checkpoint cannot be used"), why, std::string("name the step-N")})
      EXPECT_THAT(result.err, HasSubstr(part));
    EXPECT_FALSE(std::filesystem::exists(desk_ / "run")) << why;
  };
  const Path newest = desk_ / "base/checkpoints/step-61";
  std::string bytes = read_file(newest / "rank-00000.safetensors");
  bytes[bytes.size() / 2] ^= 0x55;
  replace_file(newest / "rank-00000.safetensors", bytes);
  refuse("not those that were written");
  std::filesystem::remove(newest / "manifest.json");
  refuse("step-61");
}

TEST_F(Weights, TextEndsAtAStopAndNoVocabularyIsGuessed) {
  const std::string text = written("base");
  const std::size_t bracket = text.find(']');
  ASSERT_NE(bracket, text.npos) << text;
  EXPECT_EQ(written("base", {"--stop", "] ="}), text.substr(0, text.find("] =")) + "\n");
  EXPECT_EQ(written("base", {"--stop", "no such text", "--stop", "]"}),
            text.substr(0, bracket) + "\n");
  // Of the likeliest token alone, at any temperature.
  const Result narrow = desk_.run({"generate", "--checkpoint", "base", "--prompt", "value[12",
                                   "--tokens", "24", "--top-p", "1e-9", "--temperature", "1"});
  EXPECT_EQ(narrow.out, text) << narrow.err;

  const Result other =
      desk_.run({"generate", "--checkpoint", "base", "--prompt", "a", "--tokenizer", "bytes"});
  EXPECT_EQ(other.exit_code, 3);
  EXPECT_THAT(other.err, HasSubstr("the model of"));
  EXPECT_THAT(other.err, HasSubstr("was trained with"));
  const std::string saved = read_file(desk_ / "base/vocabulary.json");
  std::filesystem::remove(desk_ / "base/vocabulary.json");
  const Result gone = desk_.run({"generate", "--checkpoint", "base", "--prompt", "a"});
  EXPECT_EQ(gone.exit_code, 3);
  EXPECT_THAT(gone.err, HasSubstr("with --tokenizer"));
  desk_.write("elsewhere.json", saved);
  EXPECT_EQ(written("base", {"--tokenizer", "elsewhere.json"}), text);
}

// A vocabulary that is learnt with a token for the end of a text: the model says when it has come.
TEST(Generate, EndsWhereTheModelEndsTheText) {
  Desk desk;
  for (int i = 0; i < 60; ++i)
    desk.write("texts/" + std::to_string(i) + ".txt", "the oars of a trireme.");
  ASSERT_EQ(
      desk.run({"data", "prepare", "texts", "--out", "data", "--tokenizer", "bpe:264", "--special",
                "<|end|>", "--end-of-document", "<|end|>", "--validation", "tail:0.1"})
          .exit_code,
      0);
  desk.write("job.yaml",
             "model: {layers: 1, hidden: 32, heads: 2, seq_len: 24}\ndata: {path: data}\n"
             "optim: {lr: 1e-2}\nrun: {steps: 120, global_batch: 8}\n");
  ASSERT_EQ(desk.run({"train", "job.yaml", "--out", "run"}).exit_code, 0);
  const Result text = desk.run({"generate", "--checkpoint", "run", "--prompt", "the oars",
                                "--temperature", "0", "--tokens", "200"});
  EXPECT_EQ(text.out, "the oars of a trireme.\n") << text.err;
  const Result shown = desk.run({"data", "tokenizer", "run", "--out", "tokenizer.json"});
  EXPECT_EQ(shown.exit_code, 0) << shown.err;
  EXPECT_THAT(shown.out, HasSubstr("bpe, 264 ids, digest "));
  EXPECT_THAT(shown.out, HasSubstr("end of text 263 (<|end|>)"));
  const Result again = desk.run({"data", "tokenizer", "tokenizer.json"});
  EXPECT_THAT(shown.out, StartsWith(again.out));
}

TEST(Data, InspectReadsWhatSynthWrote) {
  Desk desk;
  ASSERT_EQ(desk.run({"data", "synth", "vlm", "scenes", "--count", "20"}).exit_code, 0);
  for (const char* command : {"inspect", "verify"}) {
    const Result result = desk.run({"data", command, "scenes"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr("scenes/train-*.tar"));
    EXPECT_THAT(result.out, HasSubstr("scenes/validation-*.tar"));
  }
}

}  // namespace
}  // namespace trireme::app::weights_test

#endif
