// Templates of turns with a header and an end: ChatML and Qwen, Llama 3, Gemma, Phi.
#include <string>

#include "trireme/base/error.h"
#include "trireme/data/chat/template.h"

namespace trireme::chat {
namespace {

using System = Turns::System;
using Thoughts = Turns::Thoughts;

// White space as Python's str.strip() has it, in UTF-8.
constexpr std::string_view kSpaces[] = {" ",
                                        "\t",
                                        "\n",
                                        "\v",
                                        "\f",
                                        "\r",
                                        "\x1c",
                                        "\x1d",
                                        "\x1e",
                                        "\x1f",
                                        "\xc2\x85",
                                        "\xc2\xa0",
                                        "\xe1\x9a\x80",
                                        "\xe2\x80\x80",
                                        "\xe2\x80\x81",
                                        "\xe2\x80\x82",
                                        "\xe2\x80\x83",
                                        "\xe2\x80\x84",
                                        "\xe2\x80\x85",
                                        "\xe2\x80\x86",
                                        "\xe2\x80\x87",
                                        "\xe2\x80\x88",
                                        "\xe2\x80\x89",
                                        "\xe2\x80\x8a",
                                        "\xe2\x80\xa8",
                                        "\xe2\x80\xa9",
                                        "\xe2\x80\xaf",
                                        "\xe2\x81\x9f",
                                        "\xe3\x80\x80"};

std::string_view trimmed(std::string_view text) {
  const auto cut = [&](bool front) {
    for (const std::string_view space : kSpaces)
      if (front ? text.starts_with(space) : text.ends_with(space)) {
        front ? text.remove_prefix(space.size()) : text.remove_suffix(space.size());
        return true;
      }
    return false;
  };
  while (cut(true)) {
  }
  while (cut(false)) {
  }
  return text;
}

std::string_view without_newlines(std::string_view text, bool front, bool back) {
  while (front && text.starts_with('\n')) text.remove_prefix(1);
  while (back && text.ends_with('\n')) text.remove_suffix(1);
  return text;
}

struct Answer {
  std::string_view thoughts, content;
};

// As Qwen3's template divides an answer that has its thoughts in <think> tags.
Answer divided(const Message& message) {
  constexpr std::string_view kOpen = "<think>", kClose = "</think>";
  const std::string_view content = message.content;
  if (message.reasoning) return {*message.reasoning, content};
  const std::size_t first = content.find(kClose);
  if (first == content.npos) return {"", content};
  std::string_view thoughts = without_newlines(content.substr(0, first), false, true);
  if (const std::size_t open = thoughts.rfind(kOpen); open != thoughts.npos)
    thoughts.remove_prefix(open + kOpen.size());
  return {without_newlines(thoughts, true, false),
          without_newlines(content.substr(content.rfind(kClose) + kClose.size()), true, false)};
}

// Index of the last question, which no answer of a tool is. Without any, that of the last message.
std::size_t last_question(const Conversation& all) {
  for (std::size_t i = all.size(); i-- > 0;) {
    const bool of_tool = all[i].content.starts_with("<tool_response>") &&
                         all[i].content.ends_with("</tool_response>");
    if (all[i].role == Role::kUser && !of_tool) return i;
  }
  return all.size() - 1;
}

std::string answer_text(const Turns& turns, const Conversation& all, std::size_t at) {
  const Message& message = all[at];
  if (turns.thoughts == Thoughts::kNone) return message.content;
  const Answer answer = divided(message);
  const bool last = at + 1 == all.size();
  const bool shown = turns.thoughts == Thoughts::kEvery ||
                     (at > last_question(all) && (last || !answer.thoughts.empty()));
  if (!shown) return std::string(answer.content);
  return fmt::format("<think>\n{}\n</think>\n\n{}", without_newlines(answer.thoughts, true, true),
                     without_newlines(answer.content, true, false));
}

std::string_view role_name(const Turns& turns, Role role) {
  switch (role) {
    case Role::kSystem: return "system";
    case Role::kUser: return "user";
    case Role::kAssistant: break;
  }
  return turns.assistant;
}

// "2026-03-09" as "09 Mar 2026".
std::string day_month_year(const std::string& date) {
  constexpr std::string_view kMonths = "JanFebMarAprMayJunJulAugSepOctNovDec";
  const std::size_t month = static_cast<std::size_t>(std::stoi(date.substr(5, 2))) - 1;
  return fmt::format("{} {} {}", date.substr(8), kMonths.substr(3 * month, 3), date.substr(0, 4));
}

std::string dates_and(std::string_view system, const std::string& date) {
  return fmt::format("Cutting Knowledge Date: December 2023\nToday Date: {}\n\n{}",
                     date.empty() ? "26 Jul 2024" : day_month_year(date), system);
}

void check_order(const Template& shape, Role role, std::size_t place) {
  if (shape.turns.alternates && (role == Role::kUser) != (place % 2 == 0))
    fail(
        ErrorKind::kData,
        "template {} needs roles that alternate user, assistant, user, ...; message {} has role {}",
        shape.name, place, role_name({}, role));
}

void add_turn(const Turns& turns, Role role, std::string_view text, bool trained,
              std::vector<Segment>& out) {
  out.push_back({fmt::format("{}{}", turns.open, role_name(turns, role))});
  out.push_back({std::string(turns.middle), trained && turns.trains_middle});
  out.push_back({fmt::format("{}{}", text, turns.close), trained});
}

// The system's turn at the beginning, of a message or of the template itself. Returns what goes before the first
// user's text.
std::string add_system(const Template& shape, const Message* given, const Style& style,
                       std::vector<Segment>& out) {
  const Turns& turns = shape.turns;
  const std::string_view text = given ? std::string_view(given->content) : turns.default_system;
  const std::string_view own = turns.trims ? trimmed(text) : text;
  switch (turns.system) {
    case System::kRefused:
      if (given)
        fail(ErrorKind::kData,
             "template {} has no system role. Put its text into the first user message",
             shape.name);
      break;
    case System::kBeforeUser: return given ? fmt::format("{}\n\n", text) : "";
    case System::kWithDates:
      add_turn(turns, Role::kSystem, dates_and(own, style.date), false, out);
      break;
    case System::kTurn:
    case System::kOmitIfEmpty:
      if (!own.empty() || (given && turns.system == System::kTurn))
        add_turn(turns, Role::kSystem, own, false, out);
  }
  return "";
}

}  // namespace

std::vector<Segment> write_turns(const Template& shape, const Conversation& all,
                                 const Style& style) {
  const Turns& turns = shape.turns;
  std::vector<Segment> out = {{std::string(turns.begin)}};
  const bool given = all[0].role == Role::kSystem;
  const std::string before = add_system(shape, given ? all.data() : nullptr, style, out);
  const std::size_t first = given ? 1 : 0;
  for (std::size_t i = first; i < all.size(); ++i) {
    const Message& message = all[i];
    check_order(shape, message.role, i - first);
    if (message.reasoning && turns.thoughts == Thoughts::kNone)
      fail(ErrorKind::kData, "template {} has no place for the reasoning of message {}", shape.name,
           i);
    std::string text =
        message.role == Role::kAssistant ? answer_text(turns, all, i) : message.content;
    if (turns.trims) text = trimmed(text);
    if (turns.system == System::kOmitIfEmpty && message.role == Role::kSystem && text.empty())
      continue;
    add_turn(turns, message.role, i == first ? before + text : text, message.trained, out);
  }
  if (style.prompt)
    out.push_back(
        {fmt::format("{}{}{}{}", turns.open, turns.assistant, turns.middle, turns.prompt_end)});
  else
    out.push_back({std::string(turns.end), all.back().trained});
  return out;
}

}  // namespace trireme::chat
