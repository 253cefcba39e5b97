#include "trireme/launch/elastic/launch.h"

#include <fmt/core.h>

#include <utility>

#include "trireme/launch/elastic/agent.h"
#include "trireme/launch/elastic/secret.h"

namespace trireme::elastic {
namespace {

constexpr double kNever = 1e12;

}  // namespace

std::string fresh_name() {
  std::string name = "trireme-";
  for (const char c : random_bytes(8)) name += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return name;
}

Outcome run(const Launch& launch) {
  AgentConfig config;
  config.member.self.name = "this host";
  Membership::Config leads;
  leads.max_restarts = 0;
  leads.notice_s = kNever;
  leads.grace_s = leads.echo_s = launch.grace_s;
  leads.progress = launch.progress;
  config.leads = std::move(leads);
  config.endpoint.host = fresh_name();
  config.endpoint.local = true;
  config.ranks.command = launch.command;
  config.ranks.environment = launch.environment;
  config.ranks.count = launch.ranks;
  config.ranks.token = random_bytes(32);
  config.ranks.on_line = launch.on_line;
  config.patience = launch.patience;
  config.give_up_s = launch.give_up_s;
  config.stack_command = launch.stack_command;
  config.on_note = launch.on_note;
  config.on_fault = launch.on_fault;
  config.on_hang = launch.on_hang;
  return Agent(std::move(config)).run();
}

}  // namespace trireme::elastic
