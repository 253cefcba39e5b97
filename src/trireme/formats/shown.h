// Names from untrusted files, made fit for a one-line message.
#pragma once

#include <string>
#include <string_view>

namespace trireme::formats {

// The text in double quotes, bytes outside printable ASCII as \xNN, cut after 120 bytes.
std::string shown(std::string_view text);

// Whether `name` may name a file inside a directory that we read. It must not be empty, ".", "..", longer than 255
// bytes, or contain '/', NUL or a control byte.
bool is_plain_file_name(std::string_view name);

}  // namespace trireme::formats
