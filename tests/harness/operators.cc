// Tests with TRIREME_ATEN=1 in the environment compute with LibTorch's operators alone, as on a GPU.
#include <cstdlib>
#include <string_view>

#include "trireme/base/cpu.h"

namespace {

const bool done = [] {
  const char* const value = std::getenv("TRIREME_ATEN");
  if (value && value == std::string_view("1")) trireme::use_own_loops(false);
  return true;
}();

}  // namespace
