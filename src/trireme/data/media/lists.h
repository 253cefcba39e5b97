// Contents of lists of clips.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::media {

struct Ssv2Entry {
  std::string id;
  std::string label;       // the template with the objects in it; empty in a list without answers
  std::string class_name;  // the template without brackets, as the list of labels has it
};

// [{"id": "78687", "label": ..., "template": "Moving [something] up", "placeholders": [...]}, ...]. Throws Error{kData}
// beginning with `what`.
std::vector<Ssv2Entry> parse_ssv2_list(std::string_view text, const std::string& what);

// {"Moving something up": "43", ...} as names in the order of their numbers, which are 0 to count - 1. Throws Error{kData}.
std::vector<std::string> parse_ssv2_labels(std::string_view text, const std::string& what);

struct ListLine {
  std::string path;
  std::int64_t label = -1;
};

// Lines "path label" or "path::label", or a path alone; empty lines are left out. Throws Error{kData}.
std::vector<ListLine> parse_list_lines(std::string_view text, const std::string& what);

}  // namespace trireme::media
