// trireme reduce-server: an agent without ranks. In every generation it starts one process, which adds what the ranks of
// all hosts send it.
#include "reduce_server.h"

#include <csignal>
#include <utility>

#include "apps/guard.h"
#include "apps/trireme/environment.h"
#include "apps/trireme/workers.h"
#include "before_training.h"
#include "trireme/base/error.h"
#include "trireme/base/host_name.h"
#include "trireme/config/links/links_file.h"
#include "trireme/launch/elastic/agent.h"
#include "trireme/launch/elastic/secret.h"

namespace trireme::app {
namespace {

double parse_rate(const std::string& text) {
  if (const auto rate = config::link_rate(text)) return *rate;
  fail(ErrorKind::kUsage,
       "--rate {}: needs a positive number with the unit Mb/s or Gb/s, such as 1Gb/s", text);
}

}  // namespace

int reduce_server(const ReduceServerOptions& options) {
  end_on_stop_signals();
  std::signal(SIGPIPE, SIG_IGN);
  const double rate = parse_rate(options.rate);
  const auto endpoint = os::parse_address(options.endpoint);
  if (!endpoint || endpoint->local)
    fail(ErrorKind::kUsage,
         "--rdzv-endpoint {}; needs HOST:PORT of the run's first host, as `trireme launch` has it",
         options.endpoint);
  const Nodes around = find_nodes();
  elastic::AgentConfig config;
  config.serves = true;
  config.member.self.name = host_name();
  config.member.self.run_id = !options.id.empty()      ? options.id
                              : !around.run_id.empty() ? around.run_id
                                                       : "trireme";
  config.member.patience_s = options.join_timeout_s;
  config.endpoint = *endpoint;
  config.ranks.command = {worker_program(), "reduce-server", "--rate", fmt::format("{}", rate)};
  config.ranks.environment = worker_variables();
  config.ranks.token = elastic::read_token(options.token_file);
  config.ranks.on_line = print_line_of;
  config.patience.steps = 0;  // it waits for as long as ranks compute
  config.on_note = [](const std::string& note) { print_error("note", note); };
  const elastic::Outcome outcome = elastic::Agent(std::move(config)).run();
  if (outcome.exit_code != 0 && !outcome.cause.empty()) print_error("error", outcome.cause);
  return outcome.exit_code;
}

}  // namespace trireme::app
