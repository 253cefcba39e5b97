#include "trireme/base/ports.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fstream>

#include "tests/harness/needs.h"

namespace trireme::ports_test {
namespace {

TEST(FreePort, IsAPortOneCanHave) {
  const int port = free_port();
  EXPECT_TRUE(can_listen(port));
  EXPECT_GT(port, 1023);
  EXPECT_LT(port, 65536);
}

// Else who waits for a server there may be given it as the port of its own end.
TEST(FreePort, IsNoneOfThoseWhoConnect) {
  int first = 0, last = 0;
  std::ifstream("/proc/sys/net/ipv4/ip_local_port_range") >> first >> last;
  TRIREME_NEEDS("ports below those of clients",
                first >= 11000
                    ? ""
                    : fmt::format("ip_local_port_range begins at {}; runs where it begins at 11000 "
                                  "or above, as Linux sets it (32768)",
                                  first));
  for (int i = 0; i < 100; ++i) EXPECT_LT(free_port(), first);
}

TEST(CanListen, NotWhereSomebodyDoes) {
  const int port = free_port();
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  ASSERT_EQ(::bind(socket, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(::listen(socket, 1), 0);
  EXPECT_FALSE(can_listen(port));
  ::close(socket);
}

}  // namespace
}  // namespace trireme::ports_test
