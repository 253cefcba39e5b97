#pragma once

#include <string>

namespace trireme {

// This machine's name; "localhost" where it has none.
std::string host_name();

}  // namespace trireme
