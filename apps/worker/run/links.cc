// trireme-worker links: this host's part in the measurement of links.
#include <fmt/format.h>

#include "apps/worker/processes.h"
#include "apps/worker/subcommands.h"
#include "trireme/base/fs.h"
#include "trireme/config/links/links_file.h"

namespace trireme::app {

int links(const Arguments& arguments) {
  const algorithm::Links links = measure_links(arguments.number<double>("seconds", 2));
  const std::string out = arguments.text("out"), text = config::print_links(links);
  write_file_synced(out, text);
  if (variable("RANK", "0") == "0") fmt::print("{}written   {} on every host\n", text, out);
  return 0;
}

}  // namespace trireme::app
