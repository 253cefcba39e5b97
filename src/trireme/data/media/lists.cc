#include "trireme/data/media/lists.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>

#include "trireme/base/error.h"
#include "trireme/base/json.h"

namespace trireme::media {
namespace {

std::optional<std::int64_t> whole_number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

std::string string_of(const Json& entry, const char* key, const std::string& what) {
  if (!entry.contains(key)) return {};
  if (!entry[key].is_string()) fail(ErrorKind::kData, "{}: \"{}\" is not text", what, key);
  return entry[key].get<std::string>();
}

std::string without_brackets(std::string text) {
  std::erase_if(text, [](char letter) { return letter == '[' || letter == ']'; });
  return text;
}

// The number after the last space or "::", if there is one.
ListLine parse_line(std::string_view line, const std::string& what) {
  if (const std::size_t at = line.rfind("::"); at != line.npos) {
    const auto label = whole_number(line.substr(at + 2));
    if (!label) fail(ErrorKind::kData, "{}: no number after :: in '{}'", what, line);
    return {.path = std::string(line.substr(0, at)), .label = *label};
  }
  if (const std::size_t at = line.rfind(' '); at != line.npos)
    if (const auto label = whole_number(line.substr(at + 1)))
      return {.path = std::string(line.substr(0, at)), .label = *label};
  return {.path = std::string(line)};
}

}  // namespace

std::vector<Ssv2Entry> parse_ssv2_list(std::string_view text, const std::string& what) {
  const Json list = parse_json(text, what);
  if (!list.is_array()) fail(ErrorKind::kData, "{}: no list of clips", what);
  std::vector<Ssv2Entry> entries;
  for (const Json& entry : list) {
    if (!entry.is_object()) fail(ErrorKind::kData, "{}: an entry that is not an object", what);
    const bool number = entry.contains("id") && entry["id"].is_number_integer();
    entries.push_back({.id = number ? entry["id"].dump() : string_of(entry, "id", what),
                       .label = string_of(entry, "label", what),
                       .class_name = without_brackets(string_of(entry, "template", what))});
    if (entries.back().id.empty()) fail(ErrorKind::kData, "{}: an entry without \"id\"", what);
  }
  return entries;
}

std::vector<std::string> parse_ssv2_labels(std::string_view text, const std::string& what) {
  const Json labels = parse_json(text, what);
  if (!labels.is_object()) fail(ErrorKind::kData, "{}: no classes with numbers", what);
  std::vector<std::string> names(labels.size());
  std::vector<bool> taken(labels.size());
  for (const auto& [name, value] : labels.items()) {
    const auto number = value.is_string()            ? whole_number(value.get<std::string>())
                        : value.is_number_unsigned() ? whole_number(value.dump())
                                                     : std::nullopt;
    const auto at = static_cast<std::size_t>(number.value_or(-1));
    if (!number || at >= names.size() || taken[at])
      fail(ErrorKind::kData, "{}: class '{}' needs a number of its own from 0 to {}", what, name,
           names.size() - 1);
    names[at] = name;
    taken[at] = true;
  }
  return names;
}

std::vector<ListLine> parse_list_lines(std::string_view text, const std::string& what) {
  std::vector<ListLine> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    while (line.ends_with('\r') || line.ends_with(' ')) line.remove_suffix(1);
    if (line.empty()) continue;
    if (line.find('\0') != line.npos) fail(ErrorKind::kData, "{}: no list of paths", what);
    lines.push_back(parse_line(line, what));
  }
  return lines;
}

}  // namespace trireme::media
