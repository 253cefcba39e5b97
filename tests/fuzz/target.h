// What every fuzz target holds its reader to: it takes what it is given, or refuses it with an Error that says why.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

#include "trireme/base/error.h"

// Of libFuzzer; in fuzz_test the function has the target's name.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace trireme::fuzz {

// No Error, so that nobody takes it for a refusal.
struct Finding : std::logic_error {
  using std::logic_error::logic_error;
};

inline void expect(bool condition, const char* what) {
  if (!condition) throw Finding(what);
}

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// Whether `read` took its input. Every exception but a refusal passes: it is a finding.
template <typename Read>
bool takes(const Read& read) {
  try {
    read();
    return true;
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kInternal)
      throw Finding(std::string("an internal error: ") + error.what());
    expect(*error.what() != '\0', "refused without a reason");
    return false;
  }
}

}  // namespace trireme::fuzz
