// Text for people: numbers with their noun, lines that fit a screen.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace trireme {

// "1 rank", "2 ranks": `noun` takes an s.
std::string counted(std::int64_t number, std::string_view noun);

std::string bytes_text(double count);      // "512 B", "12.3 MiB", "1.50 GiB"
std::string seconds_text(double seconds);  // "250 us", "4.5 ms", "1.50 s"

// `text` with every line broken at spaces to at most `columns`; what follows a break is indented by `indent`. A word that is
// longer than a line stays whole.
std::string wrapped(std::string_view text, std::size_t columns, std::size_t indent);

}  // namespace trireme
