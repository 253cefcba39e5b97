// What data.chat says: how conversations become tokens.
#pragma once

#include <string>

namespace trireme::config {

struct Chat {
  enum class Long { kRefuse, kCut, kSplit };
  std::string shape = "auto";   // name of a template; auto: that of the vocabulary's directory
  std::string date{};           // 2026-03-09, of templates that write today's date; empty: none
  Long longer = Long::kRefuse;  // conversations that model.seq_len has no space for
  bool forbid = false;          // special tokens within messages are refused
  bool operator==(const Chat&) const = default;
};

// A template's name and options, such as "llama3.2 date=2026-03-09 long=split special=forbid"; empty for auto. Names are
// not compared here. Throws Error{kUsage} that begins with `key`.
Chat parse_chat(const std::string& text, const std::string& key = "data.chat");
// The same as text, without options that have their defaults.
std::string print(const Chat& chat);

}  // namespace trireme::config
