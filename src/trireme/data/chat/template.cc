#include "trireme/data/chat/template.h"

#include <algorithm>
#include <array>

#include "trireme/base/error.h"
#include "trireme/formats/shown.h"

namespace trireme::chat {
namespace {

using System = Turns::System;
using Thoughts = Turns::Thoughts;

constexpr std::string_view kChatMlStops[] = {"<|im_end|>", "<|endoftext|>"};
constexpr std::string_view kLlamaStops[] = {"<|eot_id|>", "<|end_of_text|>", "<|eom_id|>"};
constexpr std::string_view kGemmaStops[] = {"<end_of_turn>", "<eos>"};
constexpr std::string_view kPhiStops[] = {"<|end|>", "<|endoftext|>", "<|assistant|>"};
constexpr std::string_view kPhi4Stops[] = {"<|im_end|>", "<|endoftext|>"};
constexpr std::string_view kHarmonyStops[] = {"<|return|>", "<|call|>", "<|endoftext|>"};
constexpr std::string_view kMistralStops[] = {"</s>"};

constexpr Turns kChatMl{.open = "<|im_start|>", .middle = "\n", .close = "<|im_end|>\n"};
constexpr Turns kLlama3{.begin = "<|begin_of_text|>",
                        .open = "<|start_header_id|>",
                        .middle = "<|end_header_id|>\n\n",
                        .close = "<|eot_id|>",
                        .trims = true};
constexpr Turns kGemma{.begin = "<bos>",
                       .open = "<start_of_turn>",
                       .middle = "\n",
                       .close = "<end_of_turn>\n",
                       .assistant = "model",
                       .system = System::kRefused,
                       .trims = true,
                       .alternates = true};
constexpr Turns kPhi3{.open = "<|", .middle = "|>\n", .close = "<|end|>\n", .end = "<|endoftext|>"};
constexpr Turns kPhi4{.open = "<|im_start|>", .middle = "<|im_sep|>", .close = "<|im_end|>"};
constexpr Turns kPhi4Mini{.open = "<|", .middle = "|>", .close = "<|end|>", .end = "<|endoftext|>"};

constexpr Turns with(Turns turns, System system) {
  turns.system = system;
  return turns;
}

constexpr Turns with(Turns turns, Thoughts thoughts, std::string_view prompt_end = {}) {
  turns.thoughts = thoughts;
  turns.prompt_end = prompt_end;
  return turns;
}

// Answers of Qwen2.5, with loss from `assistant` on as TRL has it or from the line after it.
constexpr Turns qwen25(bool trains_middle) {
  Turns turns = kChatMl;
  turns.default_system = "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.";
  turns.trains_middle = trains_middle;
  return turns;
}

// Of LLaVA: what goes around a question, and before an answer.
constexpr Turns kLlava{.open = "USER: ", .middle = " ", .close = "</s>", .assistant = "ASSISTANT:"};
constexpr Turns kLlavaMistral{.open = "[INST] ",
                              .middle = " [/INST]",
                              .close = "</s> ",
                              .assistant = "",
                              .system = System::kRefused};
constexpr Pictures kQwenPictures{
    .before = "<|vision_start|>", .after = "<|vision_end|>", .next = ""};

constexpr Template kTemplates[] = {
    {"chatml", write_turns, kChatMlStops, kChatMl},
    {"qwen2.5", write_turns, kChatMlStops, qwen25(false)},
    {"qwen2.5_trl", write_turns, kChatMlStops, qwen25(true)},
    {"qwen3", write_turns, kChatMlStops, with(kChatMl, Thoughts::kLast)},
    {"qwen3_nothink", write_turns, kChatMlStops,
     with(kChatMl, Thoughts::kLast, "<think>\n\n</think>\n\n")},
    {"qwen3_trl", write_turns, kChatMlStops, with(kChatMl, Thoughts::kEvery)},
    {"qwen3_instruct_2507", write_turns, kChatMlStops, kChatMl},
    {"qwen3_vl", write_turns, kChatMlStops, kChatMl, 0, false, kQwenPictures},
    {"llava", write_llava, kMistralStops, kLlava},
    {"llava_mistral", write_llava, kMistralStops, kLlavaMistral},
    {"llama3", write_turns, kLlamaStops, kLlama3},
    {"llama3.1", write_turns, kLlamaStops, with(kLlama3, System::kWithDates)},
    {"llama3.2", write_turns, kLlamaStops, with(kLlama3, System::kWithDates)},
    {"llama3.3", write_turns, kLlamaStops, with(kLlama3, System::kWithDates)},
    {"gemma2", write_turns, kGemmaStops, kGemma},
    {"gemma3", write_turns, kGemmaStops, with(kGemma, System::kBeforeUser)},
    {"phi3", write_turns, kPhiStops, kPhi3},
    {"phi3.5", write_turns, kPhiStops, with(kPhi3, System::kOmitIfEmpty)},
    {"phi4", write_turns, kPhi4Stops, kPhi4},
    {"phi4_mini", write_turns, kPhiStops, kPhi4Mini},
    {"harmony", write_harmony, kHarmonyStops},
    {"mistral_v1", write_mistral, kMistralStops, {}, 1, true},
    {"mistral_v2", write_mistral, kMistralStops, {}, 2, true},
    {"mistral_v3", write_mistral, kMistralStops, {}, 3, true},
    {"mistral_v3_tekken", write_mistral, kMistralStops, {}, 3, false},
    {"mistral_v7", write_mistral, kMistralStops, {}, 7, true},
    {"mistral_v7_tekken", write_mistral, kMistralStops, {}, 7, false},
};

}  // namespace

std::span<const Template> templates() { return kTemplates; }

std::string template_names() {
  std::string names;
  for (const Template& shape : kTemplates)
    names += fmt::format("{}{}", names.empty() ? "" : ", ", shape.name);
  return names;
}

const Template& find_template(std::string_view name) {
  const auto* const found = std::ranges::find(kTemplates, name, &Template::name);
  if (found == std::end(kTemplates))
    fail(ErrorKind::kUsage, "chat template {} is not known; choose one of {}", formats::shown(name),
         template_names());
  return *found;
}

std::vector<std::string_view> marks(const Template& shape) {
  std::vector<std::string_view> all(shape.stops.begin(), shape.stops.end());
  const Turns& turns = shape.turns;
  for (std::string_view mark : {turns.begin, turns.open, turns.middle, turns.close, turns.end}) {
    while (mark.ends_with('\n')) mark.remove_suffix(1);
    if (!mark.empty()) all.push_back(mark);
  }
  if (shape.write == write_mistral)
    all.insert(all.end(), {"[INST]", "[/INST]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]"});
  if (shape.write == write_harmony)
    all.insert(all.end(), {"<|start|>", "<|message|>", "<|channel|>", "<|end|>"});
  return all;
}

std::vector<Segment> render(const Template& shape, const Conversation& conversation,
                            const Style& style) {
  std::vector<Segment> segments = shape.write(shape, conversation, style);
  std::erase_if(segments, [](const Segment& segment) {
    return segment.text.empty() && segment.kind == Segment::Kind::kText;
  });
  return segments;
}

std::string text_of(const std::vector<Segment>& segments) {
  std::string text;
  for (const Segment& segment : segments) {
    if (segment.spaced) text += ' ';
    text += segment.text;
  }
  return text;
}

}  // namespace trireme::chat
