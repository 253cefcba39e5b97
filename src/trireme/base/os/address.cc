#include "trireme/base/os/address.h"

#include <charconv>

namespace trireme::os {
namespace {

constexpr char kLocal[] = "unix:";
constexpr std::size_t kLongestName = 100;  // of the 108 bytes that the kernel has

}  // namespace

std::optional<Address> parse_address(const std::string& text) {
  if (text.starts_with(kLocal)) {
    const std::string name = text.substr(sizeof kLocal - 1);
    if (name.empty() || name.size() > kLongestName) return std::nullopt;
    return Address{.host = name, .local = true};
  }
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos) return std::nullopt;
  std::string host = text.substr(0, colon);
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  int port = -1;
  const char *begin = text.data() + colon + 1, *end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(begin, end, port);
  const bool ambiguous = !bracketed && host.find(':') != std::string::npos;
  if (host.empty() || ambiguous || error != std::errc() || stop != end || port < 0 || port > 65535)
    return std::nullopt;
  return Address{.host = host, .port = port};
}

std::string print(const Address& address) {
  if (address.local) return kLocal + address.host;
  const bool v6 = address.host.find(':') != std::string::npos;
  return (v6 ? "[" + address.host + "]" : address.host) + ":" + std::to_string(address.port);
}

}  // namespace trireme::os
