// Names by pattern, as keys of a job give them: "block.[0-11],head".
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// `*` is any text, `?` any character, [2-11] a whole number from 2 to 11 and [7] that number. A bracket that is something
// else matches nothing.
bool matches(std::string_view pattern, std::string_view name);

// Throws Error{kUsage} for such a bracket in a list of patterns with commas between them; `key` is whose value the list is.
void check_patterns(std::string_view key, std::string_view patterns);

// Which of the names match a list of patterns with commas between them, ascending. Throws Error{kUsage} for a pattern
// that is empty or matches no name, or by check_patterns.
std::vector<std::size_t> select(std::string_view key, std::string_view patterns,
                                const std::vector<std::string>& names);

// "a,b" as a list; one empty entry for "".
std::vector<std::string_view> split_list(std::string_view list);

}  // namespace trireme
