// trireme relay: joins the connections of hosts that can only dial out.
#include "relay.h"

#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <filesystem>

#include "apps/limits.h"
#include "trireme/base/error.h"
#include "trireme/base/os/address.h"
#include "trireme/launch/elastic/ranks.h"
#include "trireme/launch/elastic/relay.h"
#include "trireme/launch/elastic/secret.h"

namespace trireme::app {
namespace {

elastic::Relay* running_relay = nullptr;

void stop_relay(int) {
  if (running_relay != nullptr) running_relay->stop();
}

}  // namespace

int relay(const RelayOptions& options) {
  std::signal(SIGPIPE, SIG_IGN);
  raise_descriptors();
  elastic::Relay relay(options.listen, elastic::read_token(options.key_file));
  running_relay = &relay;
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) std::signal(number, stop_relay);
  fmt::print("relay     port {}\n", relay.port());
  std::fflush(stdout);
  relay.run();
  running_relay = nullptr;
  fmt::print("relay     {} pairs joined, {} bytes passed on\n", relay.stats().pairs,
             relay.stats().bytes);
  return 0;
}

void add_relay_variables(const RelayUse& use, std::vector<std::string>& variables) {
  const auto add = [&](const char* name, const std::string& value) {
    variables.push_back(fmt::format("{}={}", name, value));
  };
  if (use.dial_only) add(elastic::kDialOnlyVariable, "1");
  if (use.relay.empty()) return;
  const auto address = os::parse_address(use.relay);
  if (!address || address->local)
    fail(ErrorKind::kUsage, "--relay {}; needs HOST:PORT of trireme relay", use.relay);
  if (use.key_file.empty())
    fail(ErrorKind::kUsage, "--relay {}: needs the relay's key; add --relay-key-file FILE",
         use.relay);
  elastic::read_token(use.key_file);
  add(elastic::kRelayVariable, use.relay);
  add(elastic::kRelayKeyVariable, std::filesystem::absolute(use.key_file).string());
}

}  // namespace trireme::app
