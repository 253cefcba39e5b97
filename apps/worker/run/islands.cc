// trireme-worker islands: the leader of runs that merge their weights.
#include "apps/guard.h"
#include "apps/limits.h"
#include "apps/worker/subcommands.h"
#include "interrupts.h"
#include "trireme/comm/islands/leader_server.h"
#include "trireme/launch/elastic/secret.h"

namespace trireme::app {

int islands(const Arguments& arguments) {
  raise_descriptors();
  const Interrupts interrupts;
  comm::LeaderServer::Config config{.address = os::parse_address(arguments.text("listen")).value(),
                                    .token = elastic::read_token(arguments.text("token-file")),
                                    .tape = arguments.text("dir"),
                                    .leader = {.quorum = arguments.number<int>("quorum"),
                                               .absent_s = arguments.number<double>("absent")},
                                    .on_note = [](const std::string& text) {
                                      fmt::print("{}\n", text);
                                      std::fflush(stdout);
                                    }};
  if (arguments.has("grace")) config.leader.grace_s = arguments.number<double>("grace");
  const std::string where = config.tape.string();
  comm::LeaderServer server(std::move(config));
  fmt::print("listens on port {}, tape in {}\n", server.port(), where);
  std::fflush(stdout);
  server.run(interrupts.first());
  return 0;
}

}  // namespace trireme::app
