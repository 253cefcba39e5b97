// Chat templates: the text that a model family reads for a conversation.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/data/chat/conversation.h"

namespace trireme::chat {

// Part of a rendered conversation.
struct Segment {
  // kText segments are encoded together, as one text. A kSpecial one is the added token of this name. A kAlone one is
  // encoded by itself.
  enum class Kind { kText, kSpecial, kAlone };
  std::string text;
  bool trained = false;
  Kind kind = Kind::kText;
  bool spaced =
      false;  // kAlone: the tokenizer puts a space before it, which the rendered text shows
};

struct Style {
  bool prompt = false;  // ends where the assistant's answer begins
  std::string date{};   // 2026-03-09, of templates that write today's date
};

// How turns are written that differ in a few words only.
struct Turns {
  enum class System {
    kTurn,         // a turn of its own
    kRefused,      // not supported by the model
    kBeforeUser,   // before the first user's text
    kWithDates,    // always there, with the dates of Llama 3.1
    kOmitIfEmpty,  // a turn of its own unless it is empty
  };
  enum class Thoughts {
    kNone,   // no place for them
    kLast,   // of answers after the last question
    kEvery,  // of every answer
  };
  std::string_view begin{};              // before all turns
  std::string_view open, middle, close;  // before a role's name, after it, after its text
  std::string_view assistant = "assistant";
  std::string_view end{};             // after all turns
  std::string_view default_system{};  // where no message has one
  std::string_view prompt_end{};      // after the assistant's header in a prompt
  System system = System::kTurn;
  Thoughts thoughts = Thoughts::kNone;
  bool trims = false;          // contents lose white space at their ends
  bool alternates = false;     // user and assistant take turns, the user begins
  bool trains_middle = false;  // loss begins right after the assistant's name
};

// Text around the token of a picture, and between pictures and a question that does not place them.
struct Pictures {
  std::string_view before{}, after{}, next = "\n";
};

struct Template {
  std::string_view name;
  std::vector<Segment> (*write)(const Template&, const Conversation&, const Style&);
  std::span<const std::string_view> stops;  // special tokens that end an answer
  Turns turns{};                            // of write_turns
  int version = 0;                          // of write_mistral
  bool spaced = false;  // of write_mistral: SentencePiece puts spaces before texts
  Pictures pictures{};
};

// All templates, in the order in which messages list them.
std::span<const Template> templates();
// "chatml, qwen2.5, ..."
std::string template_names();
// Throws Error{kUsage} with the list of names.
const Template& find_template(std::string_view name);

// Texts that mark turns: "<|im_start|>", "[INST]", ..., without white space around them.
std::vector<std::string_view> marks(const Template& shape);

// Renders a conversation as segments of which those that the assistant says are trained. Throws Error{kData} where the
// template refuses it: roles, their order, a system message, reasoning, a date that is missing.
std::vector<Segment> render(const Template& shape, const Conversation& conversation,
                            const Style& style = {});
// Text of segments, for people and comparisons: of templates with kAlone segments it must not be encoded.
std::string text_of(const std::vector<Segment>& segments);

std::vector<Segment> write_turns(const Template& shape, const Conversation& all,
                                 const Style& style);
std::vector<Segment> write_harmony(const Template& shape, const Conversation& all,
                                   const Style& style);
std::vector<Segment> write_mistral(const Template& shape, const Conversation& all,
                                   const Style& style);
std::vector<Segment> write_llava(const Template& shape, const Conversation& all,
                                 const Style& style);

}  // namespace trireme::chat
