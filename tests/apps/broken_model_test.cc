// Broken Hugging Face directories on the command line: exit code 2 or 3, one line, and nothing created or changed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/apps/program.h"
#include "tests/checkpoint/convert/published_directory.h"

namespace trireme::app::broken_model_test {
namespace {

using convert::Files;
using ::testing::HasSubstr;

class BrokenModel : public ::testing::Test {
 protected:
  BrokenModel() {
    desk_.write(
        "chats.jsonl",
        R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]})"
        "\n");
  }

  // A directory of a small Llama with one file replaced; without bytes it is left out.
  void write(const std::string& name, const std::string& file = "",
             const std::optional<std::string>& bytes = {}) {
    Files files = good_;
    if (bytes)
      files[file] = *bytes;
    else
      files.erase(file);
    for (const auto& [one, content] : files) desk_.write(name + "/" + one, content);
  }
  std::string with(const char* file, const char* at, const Json& value) const {
    Json json = Json::parse(good_.at(file));
    json[Json::json_pointer(at)] = value;
    return json.dump();
  }

  void refused(const std::vector<std::string>& arguments, int exit_code,
               const std::vector<std::string>& says) {
    const auto before = desk_.contents();
    const Result result = desk_.run(arguments);
    EXPECT_EQ(result.exit_code, exit_code) << ::testing::PrintToString(arguments) << result.err;
    expect_one_line(result.err);
    for (const std::string& part : says) EXPECT_THAT(result.err, HasSubstr(part));
    EXPECT_EQ(desk_.contents(), before) << ::testing::PrintToString(arguments);
  }

  Desk desk_;
  const Files good_ = convert::published("llama");
};

TEST_F(BrokenModel, IsNotConverted) {
  write("good");
  const Result good = desk_.run({"checkpoint", "convert", "good", "out"});
  EXPECT_EQ(good.exit_code, 0) << good.err;
  std::filesystem::remove_all(desk_ / "out");

  write("bare", "config.json");
  write("activation", "config.json", with("config.json", "/hidden_act", "swish"));
  write("rope", "config.json", with("config.json", "/rope_scaling", {{"rope_type", "spiral"}}));
  write("heads", "config.json", with("config.json", "/num_key_value_heads", 3));
  write("tensors", "model.safetensors", good_.at("model.safetensors").substr(0, 5000));
  write("index", "model.safetensors.index.json", R"({"weight_map": {"a": "model-1.safetensors"}})");
  write("words", "tokenizer.json", with("tokenizer.json", "/model/vocab", Json::object()));
  const auto convert = [&](const std::string& name, const std::vector<std::string>& says) {
    refused({"checkpoint", "convert", name, "out"}, 3, says);
  };
  convert("nowhere", {"nowhere", "no such"});
  convert("chats.jsonl", {"chats.jsonl", "directory"});
  convert("bare", {"bare", "config.json"});
  convert("activation", {"activation/config.json", "hidden_act", "swish", "silu"});
  convert("rope", {"rope/config.json", "rope_type", "spiral", "llama3"});
  convert("heads", {"heads/config.json", "num_key_value_heads", "3"});
  convert("tensors", {"tensors/model.safetensors", "cut short"});
  convert("index", {"index/model.safetensors.index.json", "model-1.safetensors"});
  convert("words", {"words/tokenizer.json", "vocab is empty", "remove the tokenizer"});
}

TEST_F(BrokenModel, IsNotTrainedAndDoesNotAnswer) {
  write("words", "tokenizer.json");
  write("template", "tokenizer_config.json", R"({"chat_template": "{{ messages }}"})");
  write("ids", "tokenizer.json", with("tokenizer.json", "/model/vocab/ab", 300));
  write("ends", "generation_config.json", R"({"eos_token_id": 999})");
  write("shape", "config.json", with("config.json", "/intermediate_size", 48));
  const auto finetune = [&](const std::string& name, int code,
                            const std::vector<std::string>& says) {
    refused({"finetune", name, "chats.jsonl", "--out", "run", "--no-calibrate"}, code, says);
  };
  finetune("words", 3, {"words", "no tokenizer.json", "data.tokenizer=PATH"});
  finetune("template", 2, {"template/tokenizer_config.json", "chat_template", "chatml"});
  finetune("ids", 3, {"ids/tokenizer.json", "\"ab\"", "300", "vocab_size 260"});
  finetune("ends", 3, {"ends/generation_config.json", "eos_token_id", "999"});
  finetune("shape", 3, {"shape/model.safetensors", "[32, 16]", "[48, 16]"});
  const auto generate = [&](const std::string& name, const std::vector<std::string>& says) {
    refused({"generate", "--checkpoint", name, "--prompt", "ab"}, 3, says);
  };
  generate("ids", {"ids/tokenizer.json", "\"ab\"", "300", "vocab_size 260"});
  generate("shape", {"shape/model.safetensors", "gate_proj", "[48, 16]"});
  generate("words", {"words", "no vocabulary.json or tokenizer.json"});
}

}  // namespace
}  // namespace trireme::app::broken_model_test
