// A YAML (or JSON) text as a small tree with places, and refusal of what a job file has no use for.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trireme::config {

struct YamlNode {
  enum class Kind { kNull, kScalar, kList, kMap };

  Kind kind = Kind::kNull;
  std::string text;             // scalar
  bool quoted = false;          // scalar in quotes or a block: always text
  std::vector<YamlNode> keys;   // map: scalars, parallel to items
  std::vector<YamlNode> items;  // list, map
  int line = 0;                 // from 1
  int column = 0;
};

// Parses one document of untrusted text; an empty one is kNull. Throws Error{kUsage} starting with "WHAT:LINE:COLUMN:
// ". Causes: bad syntax, duplicate keys, keys that are not scalars, anchors, aliases, tags, several documents, deep
// nesting, tabs as indentation, bytes that are not text, and more than 256 KiB.
YamlNode parse_yaml(std::string_view text, const std::string& what);

// `text` in double quotes with control characters escaped, cut to a readable length: for messages.
std::string quote(std::string_view text);

// `text` as a YAML scalar: plain where that reads back as the same text, else in double quotes.
std::string yaml_scalar(std::string_view text);

// Whether `text` is valid UTF-8 without control characters.
bool is_printable(std::string_view text);

}  // namespace trireme::config
