// trireme-worker reduce-server: one generation of a reduction server. It ends when its ranks do.
#include <csignal>

#include "apps/worker/processes.h"
#include "apps/worker/subcommands.h"

namespace trireme::app {

int reduce_server(const Arguments& arguments) {
  // Ranks that are asked to stop save first, and need their sums until then.
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1}) std::signal(signal, SIG_IGN);
  serve_reductions(arguments.number<double>("rate", 1));
  return 0;
}

}  // namespace trireme::app
