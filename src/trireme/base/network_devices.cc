#include "trireme/base/network_devices.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <vector>

namespace trireme {
namespace {

// Sorted names in a directory; none where it is absent.
std::vector<Path> entries(const Path& directory) {
  std::vector<Path> found;
  std::error_code absent;
  for (std::filesystem::directory_iterator entry(directory, absent), end; entry != end;
       entry.increment(absent))
    found.push_back(entry->path());
  std::ranges::sort(found);
  return found;
}

// Empty where the kernel does not say.
std::string first_line(const Path& file) {
  std::string line;
  std::ifstream in(file);
  std::getline(in, line);
  return line;
}

std::string interface_text(const Path& interface) {
  const std::string speed = first_line(interface / "speed");
  return fmt::format("{} {}, MTU {}", interface.filename().string(),
                     speed.empty() || speed.starts_with('-') ? "of unknown speed" : speed + " Mb/s",
                     first_line(interface / "mtu"));
}

std::vector<std::string> interfaces(const Path& root) {
  std::vector<std::string> texts;
  for (const Path& interface : entries(root / "sys/class/net"))
    if (first_line(interface / "operstate") == "up") texts.push_back(interface_text(interface));
  if (texts.empty()) texts.emplace_back("no interface is up");
  return texts;
}

std::vector<std::string> rdma_ports(const Path& root) {
  std::vector<std::string> texts;
  for (const Path& device : entries(root / "sys/class/infiniband"))
    for (const Path& port : entries(device / "ports")) {
      const std::string state = first_line(port / "state");  // "4: ACTIVE"
      texts.push_back(fmt::format("{}:{} {}, {}, {}", device.filename().string(),
                                  port.filename().string(), first_line(port / "link_layer"),
                                  first_line(port / "rate"),
                                  state.substr(std::min(state.find(' ') + 1, state.size()))));
    }
  return texts;
}

}  // namespace

std::string network_devices(const Path& root) {
  const std::string sockets = fmt::format("{}", fmt::join(interfaces(root), "; "));
  const std::vector<std::string> ports = rdma_ports(root);
  if (ports.empty()) return sockets + "; no RDMA devices";
  std::error_code absent;
  const bool direct = std::filesystem::exists(root / "sys/module/nvidia_peermem", absent);
  return fmt::format("{}; RDMA: {}; nvidia_peermem {}", sockets, fmt::join(ports, "; "),
                     direct ? "loaded" : "not loaded");
}

}  // namespace trireme
