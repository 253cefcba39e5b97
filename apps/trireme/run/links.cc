// trireme links: an agent with one process on each host. The processes send to each other, and each writes the table.
#include "links.h"

#include <csignal>
#include <filesystem>
#include <memory>
#include <utility>

#include "apps/guard.h"
#include "apps/trireme/environment.h"
#include "apps/trireme/output.h"
#include "apps/trireme/workers.h"
#include "before_training.h"
#include "trireme/base/error.h"
#include "trireme/base/host_name.h"
#include "trireme/launch/elastic/agent.h"
#include "trireme/launch/elastic/secret.h"

namespace trireme::app {
namespace {

elastic::AgentConfig agent_of_links(const LinksOptions& options, const os::Address& endpoint,
                                    bool leads) {
  elastic::AgentConfig config;
  config.member.self.name = host_name();
  config.member.self.run_id = options.id;
  config.member.self.place = static_cast<std::uint64_t>(options.node_rank.value_or(0));
  config.member.patience_s = options.join_timeout_s;
  config.endpoint = endpoint;
  config.ranks.command = {worker_program(), "links",
                          "--seconds",      fmt::format("{}", options.seconds),
                          "--out",          std::filesystem::absolute(options.out).string()};
  config.ranks.environment = worker_variables();
  add_relay_variables(options.relay, config.ranks.environment);
  config.ranks.token = elastic::read_token(options.token_file);
  config.ranks.on_line = print_line_of;
  config.patience.steps = 0;
  config.on_note = [](const std::string& note) { print_error("note", note); };
  const auto hosts = static_cast<std::size_t>(options.hosts);
  if (leads)
    config.leads = elastic::Membership::Config{.run_id = options.id,
                                               .least = hosts,
                                               .most = hosts,
                                               .max_restarts = 0,
                                               .patience_s = options.join_timeout_s,
                                               .progress = [] { return elastic::Progress{}; }};
  return config;
}

}  // namespace

int links(const LinksOptions& given) {
  end_on_stop_signals();
  std::signal(SIGPIPE, SIG_IGN);
  LinksOptions options = given;
  const Nodes around = find_nodes();
  if (options.endpoint.empty()) options.endpoint = around.endpoint;
  if (options.id.empty()) options.id = around.run_id.empty() ? "links" : around.run_id;
  if (!options.node_rank) options.node_rank = around.rank;
  const auto endpoint = os::parse_address(options.endpoint);
  if (!endpoint || endpoint->local)
    fail(ErrorKind::kUsage,
         "--rdzv-endpoint {}; needs HOST:PORT of the first host, where it can listen",
         options.endpoint);
  check_output(options.out, "--out");
  const auto agent = [&](bool leads) {
    return std::make_unique<elastic::Agent>(agent_of_links(options, *endpoint, leads));
  };
  std::unique_ptr<elastic::Agent> own;
  try {
    own = agent(options.node_rank.value_or(0) == 0);
  } catch (const Error& error) {
    // Another host leads, if it is not said that this one does.
    if (options.node_rank || error.kind() != ErrorKind::kUsage) throw;
    own = agent(false);
  }
  const elastic::Outcome outcome = own->run();
  if (outcome.exit_code != 0 && !outcome.cause.empty()) print_error("error", outcome.cause);
  return outcome.exit_code;
}

}  // namespace trireme::app
