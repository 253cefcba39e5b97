// Bytes as text (RFC 4648).
#pragma once

#include <string>
#include <string_view>

namespace trireme::text {

std::string base64(std::string_view bytes);
// Throws Error{kData} beginning with `what` if the text is no base64 with its padding.
std::string bytes_of_base64(std::string_view text, const std::string& what);

}  // namespace trireme::text
