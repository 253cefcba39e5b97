#include "trireme/base/os/unsent.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdint>

namespace trireme::os {

void keep_little_unsent(int socket) {
  constexpr std::uint64_t kLeast = 16 << 10, kMost = 4 << 20, kAheadUs = 50'000;
  tcp_info info{};
  socklen_t size = sizeof info;
  if (::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return;
  // A window leaves in each round trip.
  const std::uint64_t window = std::uint64_t{info.tcpi_snd_cwnd} * info.tcpi_snd_mss;
  const std::uint64_t unsent = window * kAheadUs / std::max<std::uint64_t>(info.tcpi_rtt, 1);
  const auto most = static_cast<unsigned>(std::clamp(unsent, kLeast, kMost));
  ::setsockopt(socket, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &most, sizeof most);
}

}  // namespace trireme::os
