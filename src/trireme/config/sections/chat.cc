#include "trireme/config/sections/chat.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string_view>

#include "trireme/base/error.h"

namespace trireme::config {
namespace {

bool is_date(const std::string& text) {
  int year = 0;
  unsigned month = 0, day = 0;
  int read = 0;
  if (text.size() != 10 ||
      std::sscanf(text.c_str(), "%4d-%2u-%2u%n", &year, &month, &day, &read) != 3)
    return false;
  return read == 10 && std::chrono::year_month_day(std::chrono::year(year),
                                                   std::chrono::month(month), std::chrono::day(day))
                           .ok();
}

// Whether it is an option.
bool read_option(std::string_view word, Chat& chat) {
  if (word == "long=cut")
    chat.longer = Chat::Long::kCut;
  else if (word == "long=split")
    chat.longer = Chat::Long::kSplit;
  else if (word == "special=forbid")
    chat.forbid = true;
  else if (word.starts_with("date=") && is_date(std::string(word.substr(5))))
    chat.date = word.substr(5);
  else
    return false;
  return true;
}

}  // namespace

Chat parse_chat(const std::string& text, const std::string& key) {
  Chat chat;
  std::string_view rest = text;
  for (bool first = true; !rest.empty(); first = false) {
    const std::size_t end = std::min(rest.find(' '), rest.size());
    const std::string_view word = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (first && !word.empty() && word.find('=') == word.npos) {
      chat.shape = word;
    } else if (!read_option(word, chat)) {
      fail(ErrorKind::kUsage,
           "{}={}: \"{}\" is no option; needs a template and options, such as auto, or llama3.2 "
           "date=2026-03-09 long=split special=forbid (long: cut or split)",
           key, text, word);
    }
  }
  return chat;
}

std::string print(const Chat& chat) {
  std::string text = chat.shape;
  if (!chat.date.empty()) text += " date=" + chat.date;
  if (chat.longer == Chat::Long::kCut) text += " long=cut";
  if (chat.longer == Chat::Long::kSplit) text += " long=split";
  if (chat.forbid) text += " special=forbid";
  return text;
}

}  // namespace trireme::config
