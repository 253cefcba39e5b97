// trireme version.
#include <fmt/core.h>

#include "apps/build_id.h"
#include "commands.h"

namespace trireme::app {

std::string build_id() {
  return fmt::format("trireme {} {} {}", TRIREME_VERSION, TRIREME_BUILD, TRIREME_BUILD_KIND);
}

int version() {
  fmt::print("trireme {} ({}, {}), g++ {}\n", TRIREME_VERSION, TRIREME_BUILD, TRIREME_BUILD_KIND,
             __VERSION__);
  return 0;
}

}  // namespace trireme::app
