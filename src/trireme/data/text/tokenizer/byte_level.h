// Bytes as byte-level vocabularies spell them (GPT-2).
#pragma once

#include <string>
#include <string_view>

namespace trireme::text {

// `bytes` in UTF-8: printable Latin-1 as itself, the other 68 bytes, in ascending order, as U+0100 and up.
std::string byte_level_spelling(std::string_view bytes);

// The bytes of a vocabulary entry. Error{kData}, beginning with `what`, if it is spelled otherwise.
std::string bytes_of_entry(std::string_view entry, const std::string& what);

}  // namespace trireme::text
