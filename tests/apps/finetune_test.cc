// From a downloaded model and conversations to an answer, as a user runs it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/apps/program.h"
#include "tests/apps/run_files.h"

#if TRIREME_HAS_WORKER

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "trireme/config/job.h"
#include "trireme/formats/safetensors.h"

namespace trireme::app::finetune_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr char kTemplate[] =
    R"({"chat_template": "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"})";

// A directory as it is downloaded: a small model of class Llama, whose layers have other numbers of heads.
class Finetune : public ::testing::Test {
 protected:
  Finetune() {
    std::string text, chats;
    for (int i = 0; i < 600; ++i)
      text += "value " + std::to_string(i) + ": the oars of a trireme pull in three banks.\n";
    for (int i = 0; i < 48; ++i)
      chats += R"({"messages": [{"role": "user", "content": "number )" + std::to_string(i) +
               R"("}, {"role": "assistant", "content": "yes"}]})" + "\n";
    desk_.write("text.txt", text);
    desk_.write("chats.jsonl", chats);
    desk_.write(
        "job.yaml",
        "model: {family: llama, layers: 2, hidden: 64, heads: 4, kv_heads: 2, seq_len: 256}\n"
        "data: {path: text.txt, tokenizer: 'bpe:300'}\noptim: {lr: 1e-2}\n"
        "run: {steps: 2, global_batch: 4}\n");
  }
  void SetUp() override {
    done({"train", "job.yaml", "--out", "base"});
    done({"checkpoint", "convert", "base", "hf"});
    desk_.write("hf/tokenizer_config.json", kTemplate);
  }

  std::string done(const std::vector<std::string>& arguments) const {
    const Result result = desk_.run(arguments);
    EXPECT_EQ(result.exit_code, 0) << result.err << result.out;
    return result.out;
  }
  Result tune(const std::string& out, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> arguments = {"finetune", "hf", "chats.jsonl", "--out", out};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return desk_.run(arguments);
  }
  std::string tuned(const std::string& out, const std::vector<std::string>& more = {}) const {
    const Result result = tune(out, more);
    EXPECT_EQ(result.exit_code, 0) << result.err << result.out;
    return result.out;
  }
  std::string answer(const std::string& checkpoint) const {
    return done({"generate", "--checkpoint", checkpoint, "--chat", "auto", "--prompt", "number 7",
                 "--temperature", "0", "--tokens", "12"});
  }
  // Refused with one line that has all of these parts, and nothing is left behind.
  void refused(const std::vector<std::string>& arguments, int code,
               const std::vector<std::string>& why) const {
    const auto before = desk_.contents();
    const Result result = desk_.run(arguments);
    EXPECT_EQ(result.exit_code, code) << result.err << result.out;
    expect_one_line(result.err);
    for (const std::string& part : why) EXPECT_THAT(result.err, HasSubstr(part));
    EXPECT_EQ(desk_.contents(), before);
  }

  Desk desk_;
};

TEST_F(Finetune, ChoosesTrainsResumesAndAnswers) {
  const auto before = desk_.contents();
  const std::string dry = tuned("run", {"--dry-run"});
  EXPECT_EQ(desk_.contents(), before);
  for (const char* part : {"model     hf: llama, ", "of them train (LoRA of rank 16)",
                           "template chatml", "tokens, as the longest conversation has",
                           "layout    ", "forecast  ", "memory    ", "why       "})
    EXPECT_THAT(dry, HasSubstr(part));

  const std::vector<std::string> more = {"--steps", "60", "optim.lr=1e-2", "--ranks", "2"};
  const std::string first = tuned("run", more);
  EXPECT_THAT(first, HasSubstr("job       run/job.yaml"));
  EXPECT_EQ(trace(desk_ / "run").size(), 60U);
  answer("run");
  EXPECT_THAT(tuned("run", more), HasSubstr("nothing is left to do"));

  const config::Job job = config::load_job(desk_ / "run/job.lock.yaml");
  EXPECT_EQ(job.optim.lr, 1e-2);
  EXPECT_EQ(job.lora.rank, 16);
  EXPECT_EQ(job.model.seq_len % 16, 0);
  EXPECT_LT(job.model.seq_len, 256);
  EXPECT_TRUE(job.checkpoint.trainable_only);
  const std::string file = read_file(desk_ / "run/job.yaml");
  EXPECT_THAT(file, StartsWith("# trireme finetune hf chats.jsonl"));
  EXPECT_THAT(file, HasSubstr("weights: " + (desk_ / "hf").string() + "\n"));

  // The file says everything.
  done({"train", "run/job.yaml", "--ranks", "2", "--out", "again"});
  EXPECT_EQ(trace(desk_ / "again"), trace(desk_ / "run"));

  refused({"finetune", "hf", "chats.jsonl", "--out", "run", "--steps", "61"}, 2,
          {"run is a run of another command", "trireme train --out run"});
}

TEST_F(Finetune, TrainsAllParametersAndKeepsGivenKeys) {
  tuned("run",
        {"--full", "--epochs", "6", "--ranks", "2", "parallel.tp=2", "run.micro_batch=2",
         "run.global_batch=4", "--set", "model.seq_len=128", "data.validation=0", "optim.lr=1e-2"});
  const config::Job job = config::load_job(desk_ / "run/job.lock.yaml");
  EXPECT_EQ(job.lora.rank, 0);
  EXPECT_EQ(job.parallel.tp, 2);
  EXPECT_EQ(job.run.micro_batch, 2);
  EXPECT_EQ(job.run.global_batch, 4);
  EXPECT_EQ(job.model.seq_len, 128);
  EXPECT_EQ(job.run.eval_every, -1);
  EXPECT_FALSE(job.checkpoint.trainable_only);
  EXPECT_THAT(answer("run"), HasSubstr("yes"));

  // A conversation: one line, one answer, with all that was said before it.
  desk_.write("lines.txt", "number 7\n\nnumber 11\n");
  const Result talk = desk_.run(
      {"-c", std::string(TRIREME_BIN_DIR) + "/trireme generate --checkpoint run --chat auto "
                                            "--temperature 0 --tokens 12 < lines.txt"},
      "/bin/bash");
  EXPECT_EQ(talk.exit_code, 0) << talk.err;
  EXPECT_THAT(talk.out, StartsWith(answer("run")));
  EXPECT_EQ(std::ranges::count(talk.out, '\n'), 2) << talk.out;
}

// The file's first line says that answers are compared. A run that ended early and resumed has the same steps.
TEST_F(Finetune, ComparesAnswers) {
  std::string pairs;
  for (int i = 0; i < 48; ++i)
    pairs += fmt::format(R"({{"prompt": "number {}", "chosen": "yes", "rejected": "no {}"}})"
                         "\n",
                         i, i % 3);
  desk_.write("pairs.jsonl", pairs);
  const std::string out = done({"finetune", "hf", "pairs.jsonl", "--out", "dpo", "--steps", "8",
                                "--ranks", "2", "optim.lr=1e-3", "run.global_batch=8"});
  EXPECT_THAT(out, HasSubstr("tokens, as the longest comparison has"));
  EXPECT_THAT(out, HasSubstr("reference log-probabilities of"));
  const Json first = lines_of(desk_ / "dpo/metrics.jsonl")[0];
  EXPECT_NEAR(first["loss"].get<double>(), M_LN2, 4e-16);
  EXPECT_EQ(first["reward_margin"].get<double>(), 0);
  answer("dpo");
  EXPECT_THAT(done({"evaluate", "dpo"}), HasSubstr("reward_accuracy"));

  done({"train", "dpo/job.yaml", "--ranks", "2", "--out", "again", "--steps", "3"});
  EXPECT_THAT(done({"train", "dpo/job.yaml", "--ranks", "2", "--out", "again"}),
              Not(HasSubstr("reference log-probabilities of")));
  EXPECT_EQ(trace(desk_ / "again"), trace(desk_ / "dpo"));

  desk_.write("labels.jsonl", R"({"prompt": "a", "completion": "yes", "label": true})"
                              "\n"
                              R"({"prompt": "b", "completion": "no", "label": false})");
  EXPECT_THAT(done({"finetune", "hf", "labels.jsonl", "--dry-run"}), HasSubstr("loss: kto"));
  refused({"finetune", "hf", "labels.jsonl", "--dry-run", "preference.loss=dpo"}, 2,
          {"preference.loss=dpo compares pairs of answers"});
  desk_.write("bad.jsonl", R"({"prompt": "a", "chosen": "yes"})");
  refused({"finetune", "hf", "bad.jsonl", "--dry-run"}, 3,
          {"bad.jsonl:1: needs chosen and rejected"});
}

// Answers with rewards are a policy loss's: one epoch, nothing held out, and a first step on policy.
TEST_F(Finetune, ReadsRollouts) {
  std::string groups, singles;
  for (int i = 0; i < 48; ++i) {
    groups += fmt::format(
        R"({{"prompt": "number {}", "completions": ["yes", "no {}"], "rewards": [1, 0]}})"
        "\n",
        i, i % 3);
    for (const char* answer : {"yes", "no"})
      singles += fmt::format(R"({{"prompt": "number {}", "completion": "{}", "reward": {}}})"
                             "\n",
                             i, answer, answer[0] == 'y' ? 1 : 0);
  }
  desk_.write("rollouts.jsonl", groups);
  const std::string out =
      done({"finetune", "hf", "rollouts.jsonl", "--out", "grpo", "--ranks", "2", "optim.lr=1e-3",
            "run.global_batch=4", "preference.scale=none", "preference.kl=0.04"});
  EXPECT_THAT(out, HasSubstr("96 answers with rewards to train on"));
  EXPECT_THAT(out, HasSubstr("tokens, as the longest answer has"));
  EXPECT_THAT(out, HasSubstr(": 1 epochs"));
  EXPECT_THAT(out, HasSubstr("reference log-probabilities of"));
  const std::vector<Json> lines = lines_of(desk_ / "grpo/metrics.jsonl");
  EXPECT_EQ(lines[0]["ratio"].get<double>(), 1);
  EXPECT_EQ(lines[0]["kl"].get<double>(), 0);
  EXPECT_EQ(lines[0]["clipped"].get<double>(), 0);
  EXPECT_GT(lines.back()["kl"].get<double>(), 0);
  answer("grpo");
  EXPECT_THAT(done({"evaluate", "grpo", "--split", "train"}), HasSubstr("reward"));

  desk_.write("singles.jsonl", singles);
  EXPECT_THAT(done({"finetune", "hf", "singles.jsonl", "--dry-run"}), HasSubstr("loss: grpo"));
  refused({"finetune", "hf", "singles.jsonl", "--dry-run", "preference.loss=kto"}, 2,
          {"preference.loss=kto compares answers with labels", "answers with rewards"});
  desk_.write("bad.jsonl", R"({"prompt": "a", "completions": ["yes"], "rewards": [1, 2]})");
  refused({"finetune", "hf", "bad.jsonl", "--dry-run"}, 3,
          {"bad.jsonl:1: rewards has 2 entries", "1 answers"});
}

// The log-probabilities that generate prints are those of the first step, bit for bit: every ratio is 1.
TEST_F(Finetune, SampledAnswersHaveTrainingsLogProbabilities) {
  std::string lines;
  for (int i = 0; i < 8; ++i) {
    Json line =
        parse_json(done({"generate", "--checkpoint", "hf", "--chat", "auto", "--prompt",
                         fmt::format("number {}", i / 2), "--temperature", "1", "--seed",
                         std::to_string(i), "--tokens", std::to_string(5 + 4 * i), "--rollout"}),
                   "a line");
    EXPECT_EQ(line["logprobs"].size(), line["completion_ids"].size());
    EXPECT_TRUE(line["completion"].is_string());
    line["reward"] = i % 2;
    lines += line.dump() + "\n";
  }
  desk_.write("sampled.jsonl", lines);
  const std::string out =
      done({"finetune", "hf", "sampled.jsonl", "--out", "run", "--ranks", "2", "optim.lr=1e-3",
            "--steps", "2", "run.global_batch=2", "model.seq_len=256"});
  EXPECT_THAT(out, testing::ContainsRegex("; [1-7] rows an epoch"));  // several answers each
  EXPECT_THAT(out, Not(HasSubstr("reference log-probabilities of")));
  const std::vector<Json> steps = lines_of(desk_ / "run/metrics.jsonl");
  EXPECT_EQ(steps[0]["ratio"].get<double>(), 1);
  EXPECT_EQ(steps[0]["kl_old"].get<double>(), 0);
  EXPECT_GT(steps[1]["kl_old"].get<double>(), 0);
  refused({"generate", "--checkpoint", "hf", "--chat", "auto", "--rollout"}, 2,
          {"--rollout without --prompt"});
}

// One tensor of a file in fp32.
std::vector<float> values(const formats::SafetensorsFile& file, const std::string& name) {
  const formats::Tensor* tensor = file.find(name);
  EXPECT_NE(tensor, nullptr) << name;
  if (tensor == nullptr || tensor->dtype != DType::kF32) return {};
  std::vector<float> all(static_cast<std::size_t>(tensor->numel()));
  std::memcpy(all.data(), tensor->bytes.data(), tensor->bytes.size());
  return all;
}

TEST_F(Finetune, AdaptersLeaveInPeftsFormAndMerged) {
  tuned("run", {"--steps", "4", "--lora", "4", "optim.lr=1e-2", "--ranks", "2", "parallel.tp=2",
                "lora.targets=attention"});
  done({"checkpoint", "convert", "run", "adapter"});
  const Json config = parse_json(read_file(desk_ / "adapter/adapter_config.json"), "config");
  EXPECT_EQ(config["peft_type"], "LORA");
  EXPECT_EQ(config["r"], 4);
  EXPECT_EQ(config["lora_alpha"], 8);
  EXPECT_EQ(config["base_model_name_or_path"], (desk_ / "hf").string());
  EXPECT_EQ(config["target_modules"], Json({"k_proj", "o_proj", "q_proj", "v_proj"}));
  const formats::SafetensorsFile adapter(desk_ / "adapter/adapter_model.safetensors");
  EXPECT_EQ(adapter.tensors().size(), 16U);
  const formats::Tensor* b =
      adapter.find("base_model.model.model.layers.1.self_attn.k_proj.lora_B.weight");
  ASSERT_NE(b, nullptr);
  EXPECT_THAT(b->shape, ElementsAre(32, 4));

  // W + alpha / rank B A, and every other tensor as it was.
  done({"checkpoint", "convert", "run", "merged", "--merge"});
  const formats::SafetensorsFile base(desk_ / "hf/model.safetensors"),
      merged(desk_ / "merged/model.safetensors");
  ASSERT_EQ(base.tensors().size(), merged.tensors().size());
  for (const formats::Tensor& tensor : base.tensors()) {
    const std::string layer = tensor.name.substr(0, tensor.name.rfind('.'));
    std::vector<float> expected = values(base, tensor.name);
    const std::string prefix = "base_model.model." + layer;
    if (layer.find("self_attn") != layer.npos) {
      const std::vector<float> low = values(adapter, prefix + ".lora_A.weight"),
                               high = values(adapter, prefix + ".lora_B.weight");
      const std::size_t columns = low.size() / 4;
      for (std::size_t i = 0; i < expected.size(); ++i)
        for (std::size_t k = 0; k < 4; ++k)
          expected[i] += 2 * high[i / columns * 4 + k] * low[k * columns + i % columns];
      const std::vector<float> found = values(merged, tensor.name);
      ASSERT_EQ(found.size(), expected.size());
      double moved = 0;
      for (std::size_t i = 0; i < expected.size(); ++i) {
        EXPECT_NEAR(found[i], expected[i], 1e-6) << tensor.name;
        moved += std::abs(found[i] - values(base, tensor.name)[i]);
        if (i > 8) break;
      }
      EXPECT_GT(moved, 0) << tensor.name;
    } else {
      EXPECT_EQ(values(merged, tensor.name), expected) << tensor.name;
    }
  }
  EXPECT_EQ(answer("merged"), answer("run"));
}

TEST_F(Finetune, AdaptersComeBackFromPeft) {
  tuned("run", {"--steps", "4", "--lora", "4", "optim.lr=1e-2", "lora.targets=attention"});
  done({"checkpoint", "convert", "run", "adapter"});
  EXPECT_THAT(done({"checkpoint", "convert", "run", "--list"}),
              AllOf(HasSubstr("layers.1.self_attn.k_proj.lora_B.weight"), HasSubstr("16 tensors")));
  // With the model that it names, or another place of it.
  EXPECT_THAT(
      done({"checkpoint", "convert", "adapter", "back"}),
      HasSubstr("rank 4, alpha 8, lora.targets=attention, lora.scaling=rank, lora.dora=false, of"));
  EXPECT_EQ(answer("back"), answer("run"));
  done({"checkpoint", "convert", "adapter", "again", "--base", "hf"});
  done({"checkpoint", "convert", "back", "adapter2"});
  EXPECT_EQ(read_file(desk_ / "adapter2/adapter_model.safetensors"),
            read_file(desk_ / "adapter/adapter_model.safetensors"));
  refused({"checkpoint", "convert", "adapter", "x", "--base", "chats.jsonl"}, 2,
          {"--base chats.jsonl", "no Hugging Face directory"});
  refused({"checkpoint", "convert", "hf", "x", "--base", "hf"}, 2, {"no directory with adapter"});
  const std::string hint = "trireme checkpoint convert adapter OUT";
  refused({"generate", "--checkpoint", "adapter", "--prompt", "x"}, 3, {hint});
  refused({"finetune", "adapter", "chats.jsonl"}, 3, {hint});
  refused({"train", "job.yaml", "--set", "model.weights=adapter"}, 3, {hint});

  refused({"checkpoint", "convert", "base", "x", "--merge"}, 2, {"base", "has no adapters"});
  refused({"checkpoint", "convert", "hf", "x", "--merge"}, 2, {"hf is a Hugging Face directory"});
}

TEST_F(Finetune, BadInputIsNamed) {
  const std::vector<std::string> command = {"finetune", "hf", "chats.jsonl", "--out", "run"};
  const auto with = [&](const std::string& file, const std::string& text, int code,
                        const std::vector<std::string>& why) {
    const bool there = std::filesystem::exists(desk_ / file);
    const std::string kept = there ? read_file(desk_ / file) : "";
    text.empty() ? static_cast<void>(std::filesystem::remove(desk_ / file))
                 : static_cast<void>(desk_.write(file, text));
    refused(command, code, why);
    there ? static_cast<void>(desk_.write(file, kept))
          : static_cast<void>(std::filesystem::remove(desk_ / file));
  };
  with("hf/tokenizer.json", "", 3, {"hf: has no tokenizer.json", "data.tokenizer=PATH"});
  with("hf/tokenizer_config.json", "", 2, {"data.chat=auto", "chat_template", "chatml"});
  with("hf/tokenizer_config.json", R"({"chat_template": "{{ m }}"})", 2, {"data.chat=auto"});
  with("hf/config.json", "", 3, {"hf: has no config.json", "model.weights"});
  with("hf/config.json", "{}", 3, {"hf/config.json", "model_type"});
  with("hf/config.json", R"({"model_type": "falcon"})", 3, {"hf/config.json", "falcon"});
  with("hf/model.safetensors", "", 3, {"hf: has no model.safetensors"});
  with("hf/model.safetensors.index.json",
       R"({"weight_map": {"lm_head.weight": "model-00001-of-00002.safetensors"}})", 3,
       {"model-00001-of-00002.safetensors"});
  Json config = parse_json(read_file(desk_ / "hf/config.json"), "config");
  config["intermediate_size"] = 100;
  with("hf/config.json", config.dump(), 3, {"mlp.", "hf"});
  config["intermediate_size"] = -1;
  with("hf/config.json", config.dump(), 3, {"hf/config.json", "intermediate_size"});
  with("chats.jsonl", "", 3, {"chats.jsonl: no such file"});
  with("chats.jsonl", "\n", 3, {"chats.jsonl", "has no line"});
  with("chats.jsonl", "the oars\n", 3, {"chats.jsonl:1"});
  with("chats.jsonl", "{\"messages\": [{\"role\": \"user\"}]}\n", 3, {"chats.jsonl:1", "content"});
  with("chats.jsonl", "{\"text\": \"the oars\"}\n", 3, {"chats.jsonl:1", "messages"});
  with("chats.jsonl", R"({"prompt": "a", "completion": ")" + std::string(2000, 'x') + "\"}\n", 3,
       {"chats.jsonl: a conversation has", "model.seq_len=256", "long=cut"});
  desk_.write("other/a.txt", "no run");
  refused({"finetune", "hf", "chats.jsonl", "--out", "other"}, 2, {"other is not empty"});
  refused({"finetune", "nowhere", "chats.jsonl"}, 3, {"nowhere: no such directory"});
  refused({"finetune", "base", "chats.jsonl"}, 3, {"base: has no config.json"});
  refused({"finetune", "hf", "chats.jsonl", "--full", "--lora", "8"}, 2, {"--full"});
  refused({"finetune", "hf", "chats.jsonl", "--lora", "65"}, 2, {"lora.rank=65"});
  refused({"finetune", "hf", "chats.jsonl", "optim.lrr=1"}, 2, {"optim.lrr", "optim.lr"});
  refused({"finetune", "hf", "chats.jsonl", "run.memory_limit=1MiB"}, 6, {"shorter model.seq_len"});
}

}  // namespace
}  // namespace trireme::app::finetune_test

#endif
