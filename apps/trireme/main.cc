// trireme: the front. It sees no LibTorch, so that it starts at once; trireme-worker computes.
#include "apps/bus_error.h"
#include "apps/guard.h"
#include "command_line.h"

int main(int argc, char** argv) {
  trireme::app::name_file_of_bus_errors();
  return trireme::app::guarded([&] { return trireme::app::run_command_line(argc, argv); });
}
