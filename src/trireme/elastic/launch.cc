#include "trireme/elastic/launch.h"

#include <fmt/core.h>

#include "trireme/elastic/agent.h"
#include "trireme/elastic/secret.h"

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
  return Agent({.member = {.self = {.name = "this host"}},
                .leads = Membership::Config{.max_restarts = 0,
                                            .notice_s = kNever,
                                            .grace_s = launch.grace_s,
                                            .echo_s = launch.grace_s,
                                            .progress = [] { return Progress{}; }},
                .endpoint = {.host = fresh_name(), .local = true},
                .ranks = {.command = launch.command,
                          .environment = launch.environment,
                          .count = launch.ranks,
                          .token = random_bytes(32),
                          .on_line = launch.on_line}})
      .run();
}

}  // namespace trireme::elastic
