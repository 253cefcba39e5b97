// Renderings written by hand from the published descriptions of each template; answers that are trained are in ⟦⟧.
#include "trireme/data/chat/template.h"

#include <gmock/gmock.h>

#include "trireme/base/error.h"

namespace trireme::chat::template_test {
namespace {

using testing::HasSubstr;

constexpr Role kS = Role::kSystem, kU = Role::kUser, kA = Role::kAssistant;

Message answer(std::string text, std::optional<std::string> thoughts = {}) {
  return {
      .role = kA, .content = std::move(text), .reasoning = std::move(thoughts), .trained = true};
}

const Conversation kOne = {{kU, "Hey"}, answer("Yo!")};
const Conversation kTwo = {{kU, "Hey"}, answer("Yo!"), {kU, " 1+1? "}, answer("2\n")};
const Conversation kSystem = {{kS, "Be kind."}, {kU, "Hey"}, answer("Yo!")};
const Conversation kThought = {
    {kU, "Hey"}, answer("Yo!", "old"), {kU, "1+1?"}, answer("2", "\nadd\n")};

// With marks around what is trained.
std::string marked(const std::vector<Segment>& segments) {
  std::string text;
  bool trained = false;
  for (const Segment& segment : segments) {
    if (segment.trained != trained) text += segment.trained ? "⟦" : "⟧";
    trained = segment.trained;
    if (segment.spaced) text += ' ';
    text += segment.text;
  }
  return text + (trained ? "⟧" : "");
}

std::string written(const char* name, const Conversation& conversation, const Style& style = {}) {
  return marked(render(find_template(name), conversation, style));
}

std::string prompt(const char* name, const std::string& date = {}) {
  return written(name, {{kU, "Hey"}}, {.prompt = true, .date = date});
}

std::string refusal(const char* name, const Conversation& conversation, const Style& style = {}) {
  try {
    return "taken: " + written(name, conversation, style);
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(Template, ChatMl) {
  const std::string user = "<|im_start|>user\nHey<|im_end|>\n";
  const std::string one = user + "<|im_start|>assistant\n⟦Yo!<|im_end|>\n⟧";
  const std::string two =
      one + "<|im_start|>user\n 1+1? <|im_end|>\n<|im_start|>assistant\n⟦2\n<|im_end|>\n⟧";
  const std::string system = "<|im_start|>system\nBe kind.<|im_end|>\n";
  for (const char* name : {"chatml", "qwen3_instruct_2507"}) {
    EXPECT_EQ(written(name, kOne), one);
    EXPECT_EQ(written(name, kTwo), two);
    EXPECT_EQ(written(name, kSystem), system + one);
    EXPECT_EQ(prompt(name), user + "<|im_start|>assistant\n");
  }
  const std::string own =
      "<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful "
      "assistant.<|im_end|>\n";
  EXPECT_EQ(written("qwen2.5", kOne), own + one);
  EXPECT_EQ(written("qwen2.5", kTwo), own + two);
  EXPECT_EQ(written("qwen2.5", kSystem), system + one);
  EXPECT_EQ(written("qwen2.5_trl", kSystem),
            system + user + "<|im_start|>assistant⟦\nYo!<|im_end|>\n⟧");
}

TEST(Template, Qwen3KeepsTheThoughtsOfTheLastAnswer) {
  const std::string user = "<|im_start|>user\nHey<|im_end|>\n", begin = "<|im_start|>assistant\n";
  const std::string asked = "<|im_start|>user\n1+1?<|im_end|>\n";
  const std::string last = asked + begin + "⟦<think>\nadd\n</think>\n\n2<|im_end|>\n⟧";
  for (const char* name : {"qwen3", "qwen3_nothink"}) {
    EXPECT_EQ(written(name, kThought), user + begin + "⟦Yo!<|im_end|>\n⟧" + last);
    EXPECT_EQ(written(name, kOne), user + begin + "⟦<think>\n\n</think>\n\nYo!<|im_end|>\n⟧");
  }
  EXPECT_EQ(written("qwen3_trl", kThought),
            user + begin + "⟦<think>\nold\n</think>\n\nYo!<|im_end|>\n⟧" + last);
  // Thoughts may be part of the text.
  const Conversation within = {{kU, "Hey"},
                               answer("<think>\nx\n</think>\n\nYo!"),
                               {kU, "1+1?"},
                               answer("<think>\nadd\n</think>\n\n2")};
  EXPECT_EQ(written("qwen3", within), written("qwen3", kThought));
  EXPECT_EQ(prompt("qwen3"), user + begin);
  EXPECT_EQ(prompt("qwen3_nothink"), user + begin + "<think>\n\n</think>\n\n");
}

TEST(Template, OfModelsThatSee) {
  EXPECT_EQ(written("llava", kOne), "USER: Hey ASSISTANT:⟦ Yo!</s>⟧");
  EXPECT_EQ(written("llava", kTwo),
            "USER: Hey ASSISTANT:⟦ Yo!</s>⟧USER:  1+1?  ASSISTANT:⟦ 2\n</s>⟧");
  EXPECT_EQ(written("llava", kSystem), "Be kind. USER: Hey ASSISTANT:⟦ Yo!</s>⟧");
  EXPECT_EQ(prompt("llava"), "USER: Hey ASSISTANT:");
  EXPECT_EQ(written("llava_mistral", kOne), "[INST] Hey [/INST]⟦ Yo!</s> ⟧");
  EXPECT_EQ(prompt("llava_mistral"), "[INST] Hey [/INST]");
  EXPECT_THAT(refusal("llava_mistral", kSystem), HasSubstr("has no system role"));
  EXPECT_EQ(written("qwen3_vl", kTwo), written("chatml", kTwo));
  EXPECT_EQ(prompt("qwen3_vl"), prompt("chatml"));
  for (const char* name : {"llava", "llava_mistral"}) {
    EXPECT_THAT(refusal(name, {{kU, "a"}, {kU, "b"}, answer("c")}), HasSubstr("alternate"));
    EXPECT_THAT(refusal(name, kThought), HasSubstr("reasoning of message 1"));
  }
}

TEST(Template, Llama3TrimsAndItsSuccessorsDate) {
  const auto turn = [](const char* role, const char* text) {
    return fmt::format("<|start_header_id|>{}<|end_header_id|>\n\n{}", role, text);
  };
  const std::string user = turn("user", "Hey<|eot_id|>"), begin = turn("assistant", "");
  const std::string one = user + begin + "⟦Yo!<|eot_id|>⟧";
  const std::string two = one + turn("user", "1+1?<|eot_id|>") + begin + "⟦2<|eot_id|>⟧";
  EXPECT_EQ(written("llama3", kOne), "<|begin_of_text|>" + one);
  EXPECT_EQ(written("llama3", kTwo), "<|begin_of_text|>" + two);
  EXPECT_EQ(written("llama3", kSystem),
            "<|begin_of_text|>" + turn("system", "Be kind.<|eot_id|>") + one);
  EXPECT_EQ(prompt("llama3"), "<|begin_of_text|>" + user + begin);
  const std::string dates = turn("system", "Cutting Knowledge Date: December 2023\nToday Date: ");
  for (const char* name : {"llama3.1", "llama3.2", "llama3.3"}) {
    const std::string old = "<|begin_of_text|>" + dates + "26 Jul 2024\n\n";
    EXPECT_EQ(written(name, kTwo), old + "<|eot_id|>" + two);
    EXPECT_EQ(written(name, kSystem), old + "Be kind.<|eot_id|>" + one);
    EXPECT_EQ(prompt(name, "2025-12-01"),
              "<|begin_of_text|>" + dates + "01 Dec 2025\n\n<|eot_id|>" + user + begin);
  }
}

TEST(Template, GemmaAlternates) {
  const std::string user = "<bos><start_of_turn>user\nHey<end_of_turn>\n";
  const std::string begin = "<start_of_turn>model\n";
  const std::string one = user + begin + "⟦Yo!<end_of_turn>\n⟧";
  for (const char* name : {"gemma2", "gemma3"}) {
    EXPECT_EQ(written(name, kOne), one);
    EXPECT_EQ(written(name, kTwo),
              one + "<start_of_turn>user\n1+1?<end_of_turn>\n" + begin + "⟦2<end_of_turn>\n⟧");
    EXPECT_EQ(prompt(name), user + begin);
    EXPECT_THAT(refusal(name, {{kU, "a"}, {kU, "b"}, answer("c")}), HasSubstr("alternate"));
    EXPECT_THAT(refusal(name, {answer("c")}), HasSubstr("alternate"));
    EXPECT_THAT(refusal(name, kThought), HasSubstr("reasoning of message 1"));
  }
  EXPECT_THAT(refusal("gemma2", kSystem), HasSubstr("gemma2 has no system role"));
  EXPECT_EQ(written("gemma3", kSystem), "<bos><start_of_turn>user\nBe kind.\n\nHey<end_of_turn>\n" +
                                            begin + "⟦Yo!<end_of_turn>\n⟧");
}

TEST(Template, Phi) {
  const std::string one = "<|user|>\nHey<|end|>\n<|assistant|>\n⟦Yo!<|end|>\n";
  const std::string two =
      one + "⟧<|user|>\n 1+1? <|end|>\n<|assistant|>\n⟦2\n<|end|>\n<|endoftext|>⟧";
  for (const char* name : {"phi3", "phi3.5"}) {
    EXPECT_EQ(written(name, kOne), one + "<|endoftext|>⟧");
    EXPECT_EQ(written(name, kTwo), two);
    EXPECT_EQ(written(name, kSystem), "<|system|>\nBe kind.<|end|>\n" + one + "<|endoftext|>⟧");
    EXPECT_EQ(prompt(name), "<|user|>\nHey<|end|>\n<|assistant|>\n");
  }
  const Conversation empty = {{kS, ""}, {kU, "Hey"}, answer("Yo!")};
  EXPECT_EQ(written("phi3", empty), "<|system|>\n<|end|>\n" + one + "<|endoftext|>⟧");
  EXPECT_EQ(written("phi3.5", empty), one + "<|endoftext|>⟧");
  EXPECT_EQ(written("phi4_mini", kSystem),
            "<|system|>Be kind.<|end|><|user|>Hey<|end|><|assistant|>⟦Yo!<|end|><|endoftext|>⟧");
  EXPECT_EQ(
      written("phi4_mini", kTwo),
      "<|user|>Hey<|end|><|assistant|>⟦Yo!<|end|>⟧<|user|> 1+1? <|end|><|assistant|>⟦2\n<|end|>"
      "<|endoftext|>⟧");
  EXPECT_EQ(prompt("phi4_mini"), "<|user|>Hey<|end|><|assistant|>");
  EXPECT_EQ(written("phi4", kSystem),
            "<|im_start|>system<|im_sep|>Be kind.<|im_end|><|im_start|>user<|im_sep|>Hey<|im_end|>"
            "<|im_start|>assistant<|im_sep|>⟦Yo!<|im_end|>⟧");
  EXPECT_EQ(
      written("phi4", kTwo),
      "<|im_start|>user<|im_sep|>Hey<|im_end|><|im_start|>assistant<|im_sep|>⟦Yo!<|im_end|>⟧"
      "<|im_start|>user<|im_sep|> 1+1? <|im_end|><|im_start|>assistant<|im_sep|>⟦2\n<|im_end|>⟧");
  EXPECT_EQ(prompt("phi4"),
            "<|im_start|>user<|im_sep|>Hey<|im_end|><|im_start|>assistant<|im_sep|>");
}

TEST(Template, Harmony) {
  const std::string system =
      "<|start|>system<|message|>You are ChatGPT, a large language model trained by OpenAI.\n"
      "Knowledge cutoff: 2024-06\nCurrent date: 2026-03-09\n\nReasoning: medium\n\n# Valid "
      "channels: "
      "analysis, commentary, final. Channel must be included for every message.<|end|>";
  const std::string user = "<|start|>user<|message|>Hey<|end|>";
  const std::string final = "<|start|>assistant<|channel|>final<|message|>";
  const Style dated{.date = "2026-03-09"};
  EXPECT_EQ(written("harmony", kOne, dated), system + user + "⟦" + final + "Yo!<|return|>⟧");
  EXPECT_EQ(written("harmony", kSystem, dated),
            system + "<|start|>developer<|message|># Instructions\n\nBe kind.\n\n<|end|>" + user +
                "⟦" + final + "Yo!<|return|>⟧");
  EXPECT_EQ(written("harmony", kThought, dated),
            system + user + "⟦" + final + "Yo!<|end|>⟧<|start|>user<|message|>1+1?<|end|>⟦" +
                "<|start|>assistant<|channel|>analysis<|message|>\nadd\n<|end|>" + final +
                "2<|return|>⟧");
  EXPECT_EQ(prompt("harmony", "2026-03-09"), system + user + "<|start|>assistant");
  EXPECT_THAT(refusal("harmony", kOne), HasSubstr("date=2026-03-09"));
  EXPECT_THAT(refusal("harmony", {{kU, "a"}, {kS, "b"}, answer("c")}, dated),
              HasSubstr("message 1 has role system"));
  EXPECT_THAT(refusal("harmony", {{kU, "a"}, answer("<|channel|>final<|message|>x")}, dated),
              HasSubstr("<|channel|>"));
}

TEST(Template, MistralSpeaksBetweenBrackets) {
  EXPECT_EQ(written("mistral_v1", kOne), "<s> [INST] Hey [/INST]⟦ Yo!</s>⟧");
  EXPECT_EQ(written("mistral_v1", kTwo),
            "<s> [INST] Hey [/INST]⟦ Yo!</s>⟧ [INST]  1+1?  [/INST]⟦ 2\n</s>⟧");
  const Conversation both = {
      {kS, "Be kind."}, {kU, "Hey"}, answer("Yo!"), {kU, "1+1?"}, answer("2")};
  EXPECT_EQ(written("mistral_v1", both),
            "<s> [INST] Be kind.\n\nHey [/INST]⟦ Yo!</s>⟧ [INST] 1+1? [/INST]⟦ 2</s>⟧");
  EXPECT_EQ(prompt("mistral_v1"), "<s> [INST] Hey [/INST]");
  for (const char* name : {"mistral_v2", "mistral_v3"}) {
    EXPECT_EQ(written(name, kOne), "<s>[INST] Hey[/INST]⟦ Yo!</s>⟧");
    EXPECT_EQ(written(name, kSystem), "<s>[INST] Be kind.\n\nHey[/INST]⟦ Yo!</s>⟧");
    EXPECT_EQ(written(name, both),
              "<s>[INST] Hey[/INST]⟦ Yo!</s>⟧[INST] Be kind.\n\n1+1?[/INST]⟦ 2</s>⟧");
    EXPECT_EQ(prompt(name), "<s>[INST] Hey[/INST]");
  }
  EXPECT_EQ(written("mistral_v3_tekken", kOne), "<s>[INST]Hey[/INST]⟦Yo!</s>⟧");
  EXPECT_EQ(written("mistral_v3_tekken", both),
            "<s>[INST]Hey[/INST]⟦Yo!</s>⟧[INST]Be kind.\n\n1+1?[/INST]⟦2</s>⟧");
  EXPECT_EQ(prompt("mistral_v3_tekken"), "<s>[INST]Hey[/INST]");
  EXPECT_EQ(written("mistral_v7", kTwo),
            "<s>[INST] Hey[/INST]⟦ Yo!</s>⟧[INST]  1+1? [/INST]⟦ 2\n</s>⟧");
  EXPECT_EQ(written("mistral_v7", kSystem),
            "<s>[SYSTEM_PROMPT] Be kind.[/SYSTEM_PROMPT][INST] Hey[/INST]⟦ Yo!</s>⟧");
  EXPECT_EQ(prompt("mistral_v7"), "<s>[INST] Hey[/INST]");
  EXPECT_EQ(written("mistral_v7_tekken", kOne), "<s>[INST]Hey[/INST]⟦Yo!</s>⟧");
  EXPECT_EQ(written("mistral_v7_tekken", kSystem),
            "<s>[SYSTEM_PROMPT]Be kind.[/SYSTEM_PROMPT][INST]Hey[/INST]⟦Yo!</s>⟧");
  EXPECT_EQ(prompt("mistral_v7_tekken"), "<s>[INST]Hey[/INST]");
}

TEST(Template, MistralJoinsMessagesOfOneRole) {
  const Conversation several = {{kU, "a"}, {kU, "b"}, answer("c"), answer("d")};
  EXPECT_EQ(written("mistral_v3", several), "<s>[INST] a\n\nb[/INST]⟦ c\n\nd</s>⟧");
  EXPECT_THAT(refusal("mistral_v3", {answer("c")}), HasSubstr("user message before"));
  EXPECT_THAT(refusal("mistral_v7", {{kS, "a"}, answer("c")}), HasSubstr("user message before"));
  EXPECT_THAT(refusal("mistral_v1", {{kU, "a"}, answer("")}), HasSubstr("empty"));
  EXPECT_THAT(refusal("mistral_v7", {{kU, "a"}, answer("b"), {kS, "c"}}),
              HasSubstr("no system message after an answer"));
  EXPECT_THAT(refusal("mistral_v2", kOne, {.prompt = true}), HasSubstr("at the end of a prompt"));
}

TEST(Template, AnswersOfAPromptAreNotTrained) {
  Conversation two = kTwo;
  two[1].trained = false;
  EXPECT_EQ(
      written("chatml", two),
      "<|im_start|>user\nHey<|im_end|>\n<|im_start|>assistant\nYo!<|im_end|>\n<|im_start|>user\n "
      "1+1? <|im_end|>\n<|im_start|>assistant\n⟦2\n<|im_end|>\n⟧");
}

TEST(Template, UnknownNamesGetTheList) {
  try {
    find_template("llama4");
    FAIL() << "llama4 is known";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_THAT(error.what(), HasSubstr("chatml, qwen2.5"));
  }
}

}  // namespace
}  // namespace trireme::chat::template_test
