#include "trireme/base/os/net.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <map>

#include "trireme/base/clock.h"
#include "trireme/base/error.h"
#include "trireme/base/os/wait.h"

namespace trireme::os::net_test {
namespace {

using Happened = NetEvent::Kind;

std::string fresh_name() {
  static int count = 0;
  return "trireme-net-test-" + std::to_string(::getpid()) + "-" + std::to_string(++count);
}

class Pair : public ::testing::TestWithParam<bool> {
 protected:
  Pair() {
    const Address where = server_->listen(GetParam() ? Address{.host = fresh_name(), .local = true}
                                                     : Address{.host = "127.0.0.1"});
    there_ = client_->dial(where);
    here_ = next(*server_, Happened::kAccepted).connection;
    next(*client_, Happened::kConnected);
  }

  // The next event of a kind; others before it are bytes, which add up.
  NetEvent next(Net& net, Happened kind) {
    for (;;) {
      auto& queue = events_[&net];
      while (!queue.empty()) {
        NetEvent event = queue.front();
        queue.erase(queue.begin());
        if (event.kind == kind) return event;
        received_[&net] += event.bytes;
      }
      wait({net.descriptor()}, 60);
      for (NetEvent& event : net.take()) queue.push_back(std::move(event));
    }
  }

  std::unique_ptr<Net> server_ = make_sockets(), client_ = make_sockets();
  ConnectionId here_ = 0, there_ = 0;
  std::map<Net*, std::vector<NetEvent>> events_;
  std::map<Net*, std::string> received_;
};

INSTANTIATE_TEST_SUITE_P(LocalAndTcp, Pair, ::testing::Bool());

TEST_P(Pair, CarriesBytesBothWays) {
  client_->send(there_, "question");
  EXPECT_EQ(next(*server_, Happened::kBytes).bytes, "question");
  server_->send(here_, "answer");
  EXPECT_EQ(next(*client_, Happened::kBytes).bytes, "answer");
}

TEST_P(Pair, CarriesMoreThanTheKernelBuffers) {
  const std::string large(8 << 20, 'x');
  client_->send(there_, large);
  EXPECT_GT(client_->unsent(there_), 0u);
  std::size_t got = 0;
  while (got < large.size()) {
    wait({server_->descriptor(), client_->descriptor()}, 60);
    for (const NetEvent& event : server_->take()) got += event.bytes.size();
    client_->take();
  }
  EXPECT_EQ(got, large.size());
  EXPECT_EQ(client_->unsent(there_), 0u);
}

TEST_P(Pair, TellsTheOtherSidesEnd) {
  client_->send(there_, "last words");
  client_->close(there_);
  EXPECT_EQ(next(*server_, Happened::kClosed).connection, here_);
  EXPECT_EQ(received_[server_.get()], "last words");
  server_->send(here_, "to nobody");
}

// Both ends notice a host that is gone without a word, but not before the 60 s for which data streams survive a cut; a local
// socket's other end cannot go so.
class TcpPair : public Pair {};
INSTANTIATE_TEST_SUITE_P(Tcp, TcpPair, ::testing::Values(false));

TEST_P(TcpPair, IsKeptAlive) {
  int connections = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int fd = std::stoi(entry.path().filename());
    const auto option = [&](int level, int name) {
      int value = -1;
      socklen_t size = sizeof value;
      return ::getsockopt(fd, level, name, &value, &size) == 0 ? value : -1;
    };
    if (option(SOL_SOCKET, SO_DOMAIN) != AF_INET || option(SOL_SOCKET, SO_ACCEPTCONN) != 0)
      continue;
    ++connections;
    EXPECT_EQ(option(SOL_SOCKET, SO_KEEPALIVE), 1);
    const int noticed_s = option(IPPROTO_TCP, TCP_KEEPIDLE) +
                          option(IPPROTO_TCP, TCP_KEEPINTVL) * option(IPPROTO_TCP, TCP_KEEPCNT);
    EXPECT_GT(noticed_s, 60);
    EXPECT_LE(noticed_s, 120);
    EXPECT_EQ(option(IPPROTO_TCP, TCP_USER_TIMEOUT), 1000 * noticed_s);
  }
  EXPECT_EQ(connections, 2);
}

TEST(Net, NobodyListensThere) {
  const auto net = make_sockets();
  const ConnectionId id = net->dial({.host = fresh_name(), .local = true});
  const Stopwatch watch;
  wait({net->descriptor()}, 60);
  EXPECT_LT(watch.seconds(), 50) << "the descriptor must tell";
  const auto events = net->take();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].kind, Happened::kClosed);
  EXPECT_EQ(events[0].connection, id);
  EXPECT_NE(events[0].bytes, "");
}

TEST(Net, AnAddressIsTakenOnce) {
  const auto net = make_sockets();
  const Address where = net->listen({.host = "127.0.0.1"});
  EXPECT_GT(where.port, 0);
  EXPECT_THROW(net->listen(where), Error);
  EXPECT_THROW(net->listen({.host = std::string(70, 'x'), .port = 1}), Error);
}

TEST(Net, FurtherConnectionsWaitUntilOneEnds) {
  const auto server = make_sockets(2), client = make_sockets();
  const Address where = server->listen({.host = fresh_name(), .local = true});
  for (int i = 0; i < 3; ++i) client->dial(where);
  std::vector<ConnectionId> accepted;
  const auto look = [&] {
    for (const NetEvent& event : server->take())
      if (event.kind == Happened::kAccepted) accepted.push_back(event.connection);
  };
  while (accepted.size() < 2) look();
  look();
  ASSERT_EQ(accepted.size(), 2u);
  server->close(accepted[0]);
  wait({server->descriptor()}, 60);
  look();
  EXPECT_EQ(accepted.size(), 3u);
}

TEST(Address, PrintsAndParses) {
  for (const char* text : {"localhost:29500", "[::1]:80", "unix:trireme-1", "10.0.0.1:0"})
    EXPECT_EQ(print(parse_address(text).value()), text);
  for (const char* text : {"", "host", "host:", ":80", "host:65536", "host:-1", "host:8x", "::1:80",
                           "unix:", "host:1 "})
    EXPECT_FALSE(parse_address(text)) << text;
  EXPECT_FALSE(parse_address("unix:" + std::string(200, 'x')));
}

}  // namespace
}  // namespace trireme::os::net_test
