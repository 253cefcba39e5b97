// trireme version.
#include <fmt/core.h>

#include "commands.h"

namespace trireme::app {

int version() {
  fmt::print("trireme {} ({}), g++ {}\n", TRIREME_VERSION, TRIREME_BUILD, __VERSION__);
  return 0;
}

}  // namespace trireme::app
