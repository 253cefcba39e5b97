#include "processes.h"

#include <cstdlib>

namespace trireme::app {

std::string variable(const char* name, const char* missing) {
  const char* value = std::getenv(name);
  return value && *value ? value : missing;
}

std::unique_ptr<comm::World> connect_processes(double timeout_s) {
  comm::GlooConfig config;
  config.rank = std::atoi(variable("RANK", "0").c_str());
  config.size = std::atoi(variable("WORLD_SIZE", "1").c_str());
  config.host = variable("MASTER_ADDR", "127.0.0.1");
  config.port = std::atoi(variable("MASTER_PORT", "29500").c_str());
  config.host_store = variable("TORCHELASTIC_USE_AGENT_STORE", "False") != "True";
  config.run_id = variable("TORCHELASTIC_RUN_ID", "trireme") + "." +
                  variable("TORCHELASTIC_RESTART_COUNT", "0");
  config.interface = variable("GLOO_SOCKET_IFNAME", "");
  config.timeout_s = timeout_s;
  return comm::connect_gloo(config);
}

}  // namespace trireme::app
