// trireme: the front. It sees no LibTorch, so that it starts at once; trireme-worker computes.
#include "../guard.h"
#include "command_line.h"

int main(int argc, char** argv) {
  return trireme::app::guarded([&] { return trireme::app::run_command_line(argc, argv); });
}
