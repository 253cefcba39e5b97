#include "trireme/data/chat/prepare.h"

#include <gmock/gmock.h>

#include <set>

#include "tests/harness/scratch_directory.h"
#include "trireme/base/error.h"
#include "trireme/data/chat/recognise.h"

namespace trireme::chat::prepare_test {
namespace {

using testing::HasSubstr;

std::string line(const std::string& question, const std::string& answer) {
  return R"({"messages": [{"role": "user", "content": ")" + question +
         R"("}, {"role": "assistant", "content": ")" + answer + "\"}]}\n";
}

class Prepare : public testing::Test {
 protected:
  text::Dataset prepared(const std::string& lines, double validation = 0,
                         const char* name = "chatml", bool forbid = false) {
    const Path file = directory_.write("chats.jsonl", lines);
    return prepare({.sources = text::collect_sources({file}),
                    .out = directory_ / fmt::format("out{}", ++made_),
                    .tokenizer = text::Tokenizer::bytes(),
                    .shape = find_template(name),
                    .forbid = forbid,
                    .validation = validation});
  }
  std::string refusal(const std::string& lines, double validation = 0,
                      const char* name = "chatml") {
    try {
      prepared(lines, validation, name);
    } catch (const Error& error) {
      return error.what();
    }
    return "taken";
  }

  harness::ScratchDirectory directory_;
  int made_ = 0;
};

// Tokens of a document of `file` as text.
std::string text_in(const text::TokenFile& file, std::int64_t document) {
  const text::TokenRange range = file.document(document);
  std::vector<std::int32_t> ids(static_cast<std::size_t>(range.count));
  file.read(range.first, std::span<std::int32_t>(ids));
  return text::Tokenizer::bytes().decode(ids);
}

TEST_F(Prepare, KeepsTokensAndWhichOfThemTrain) {
  const text::Dataset made = prepared(line("Hi", "Yo") + "\n \r\n" + line("1", "2"));
  ASSERT_EQ(made.train.documents(), 2);
  EXPECT_EQ(text_in(made.train, 0),
            "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nYo<|im_end|>\n");
  std::string trained;
  const std::string marks = text_in(*made.train_loss, 0), text = text_in(made.train, 0);
  for (std::size_t i = 0; i < text.size(); ++i)
    if (marks[i] == 1) trained += text[i];
  EXPECT_EQ(trained, "Yo<|im_end|>\n");
  EXPECT_EQ(made.train_loss->tokens(), made.train.tokens());
  text::verify_dataset(made.directory);
}

// Equal conversations lie on one side, wherever they are in the file.
TEST_F(Prepare, HoldsOutByContent) {
  std::string once, reversed;
  for (int i = 0; i < 60; ++i) {
    const std::string one = line(std::to_string(i), "yes");
    once += one + one;
    reversed = one + reversed;
  }
  const auto held_out = [](const text::Dataset& made) {
    std::multiset<std::string> all;
    for (std::int64_t k = 0; k < made.val.documents(); ++k) all.insert(text_in(made.val, k));
    return all;
  };
  const std::multiset<std::string> twice = held_out(prepared(once, 0.2)),
                                   each = held_out(prepared(reversed, 0.2));
  EXPECT_EQ(twice.size(), 2 * each.size());
  for (const std::string& text : each) EXPECT_EQ(twice.count(text), 2u);
  EXPECT_EQ(prepared(reversed, 7).val.documents(), 7);
  EXPECT_EQ(prepared(once, 7).val.documents(), 8) << "equal ones stay together";
  EXPECT_NE(prepared(once, 0.2).digest, prepared(once, 0.3).digest);
  EXPECT_EQ(prepared(once, 0.2).digest, prepared(once, 0.2).digest);
}

TEST_F(Prepare, RefusalsNameFileAndLine) {
  const std::string good = line("Hi", "Yo");
  EXPECT_THAT(refusal(good + "{\"messages\": 5}\n"), HasSubstr("chats.jsonl:2: "));
  EXPECT_THAT(refusal(good + "\n{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}]}\n"),
              HasSubstr("chats.jsonl:3: has no answer"));
  EXPECT_THAT(refusal("{\"messages\": [{\"role\": \"system\", \"content\": \"x\"}, {\"role\": "
                      "\"assistant\", \"content\": \"x\"}]}\n",
                      0, "gemma2"),
              HasSubstr("chats.jsonl:1: template gemma2 has no system role"));
  EXPECT_THAT(refusal("\n"), HasSubstr("has no line"));
  EXPECT_THAT(refusal(good, 3), HasSubstr("there are 1 lines"));
  EXPECT_THAT(refusal(good, 0.2), HasSubstr("leaves none for"));
  // Bytes have no special tokens, and so read a mark as text.
  const std::string marked = line("a<|im_end|>", "Yo");
  EXPECT_EQ(prepared(marked).train.documents(), 1);
  EXPECT_THROW(prepared(marked, 0, "chatml", /*forbid=*/true), Error);
  EXPECT_THAT(refusal(good, 0, "mistral_v3"), HasSubstr("has no added token"));
}

TEST(Recognise, PublishedTemplates) {
  EXPECT_EQ(recognised("{{'<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>'}}"), "chatml");
  EXPECT_EQ(recognised("You are Qwen, created by Alibaba Cloud. You are a helpful assistant. "
                       "<|im_start|>"),
            "qwen2.5");
  EXPECT_EQ(recognised("<|im_start|> <|im_end|> You are SmolLM"), "") << "has a default of its own";
  EXPECT_EQ(recognised("<|im_start|> <think> enable_thinking <tool_call>"), "qwen3");
  EXPECT_EQ(recognised("<|start_header_id|> <|eot_id|>"), "llama3");
  EXPECT_EQ(recognised("<|start_header_id|> strftime_now Cutting Knowledge Date"), "llama3.2");
  EXPECT_EQ(recognised("' [INST] ' + m.content + ' [/INST]'"), "mistral_v1");
  EXPECT_EQ(recognised("{{ message['role'].upper() }}: <image>\n 'ASSISTANT:'"), "llava");
  EXPECT_EQ(recognised("'[INST] ' <image>\n '[/INST]'"), "llava_mistral");
  EXPECT_EQ(recognised("<|im_start|> <|vision_start|><|image_pad|> <|im_end|> <tool_call>"),
            "qwen3_vl");
  const std::string tools = "You are provided with function signatures within <tools></tools>";
  EXPECT_EQ(recognised("<|im_start|> <|vision_start|> <|im_end|> <tool_call>" + tools), "qwen3_vl");
  EXPECT_EQ(recognised("<|im_start|> <tool_call> enable_thinking" + tools), "qwen3");
  EXPECT_EQ(recognised("<|im_start|> <tool_call>" + tools), "qwen3_instruct_2507");
  EXPECT_EQ(recognised("<|im_start|> You are a helpful assistant. <|vision_start|>"), "")
      << "Qwen2-VL has a default of its own";
  EXPECT_EQ(recognised("hello"), "");
}

TEST(Recognise, ReadsTheDirectoryOfAVocabulary) {
  const harness::ScratchDirectory directory;
  const auto refused = [&] {
    try {
      template_of_model(directory / "tokenizer.json", "data.chat");
      return std::string("taken");
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  EXPECT_THAT(refused(), HasSubstr("has no chat_template.jinja"));
  directory.write("tokenizer_config.json",
                  R"({"chat_template": [{"name": "tool_use", "template": "x"},
                      {"name": "default", "template": "<start_of_turn> first_user_prefix"}]})");
  EXPECT_EQ(template_of_model(directory.path(), "data.chat"), "gemma3");
  directory.write("chat_template.json", R"({"chat_template": "<image> ASSISTANT:"})");
  EXPECT_EQ(template_of_model(directory.path(), "data.chat"), "llava");
  directory.write("chat_template.jinja", "<|user|> <|end|>");
  EXPECT_EQ(template_of_model(directory / "tokenizer.json", "data.chat"), "phi3");
  directory.write("chat_template.jinja", "{{ what }}");
  EXPECT_THAT(refused(), HasSubstr("not one that is built in. Name one of chatml"));
}

}  // namespace
}  // namespace trireme::chat::prepare_test
