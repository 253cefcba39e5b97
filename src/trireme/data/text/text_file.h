// Distinction between text and other bytes.
#pragma once

#include <string>
#include <string_view>

namespace trireme::text {

// Throws Error{kData} naming `what` for bytes that are no text in UTF-8 or an 8-bit code, such as pictures, archives,
// UTF-16 and other content with a byte 0.
void check_is_text(std::string_view bytes, const std::string& what);

}  // namespace trireme::text
