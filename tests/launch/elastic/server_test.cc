#include "trireme/launch/elastic/server.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <random>
#include <vector>

#include "trireme/base/os/descriptor.h"
#include "trireme/base/os/wait.h"
#include "trireme/launch/elastic/launch.h"
#include "trireme/launch/elastic/link.h"
#include "trireme/launch/elastic/secret.h"

namespace trireme::elastic::server_test {
namespace {

using Happening = os::NetEvent::Kind;

constexpr char kRunToken[] = "the token of this run";

// Sockets whose bytes, of both directions, are kept.
class Tapped final : public os::Net {
 public:
  os::Address listen(const os::Address& address) override { return net_->listen(address); }
  os::ConnectionId dial(const os::Address& address) override { return net_->dial(address); }
  void send(os::ConnectionId connection, std::string_view bytes) override {
    seen += bytes;
    net_->send(connection, bytes);
  }
  std::size_t unsent(os::ConnectionId connection) const override {
    return net_->unsent(connection);
  }
  void close(os::ConnectionId connection) override { net_->close(connection); }
  std::vector<os::NetEvent> take() override {
    auto events = net_->take();
    for (const os::NetEvent& event : events)
      if (event.kind == Happening::kBytes) seen += event.bytes;
    return events;
  }
  int descriptor() const override { return net_->descriptor(); }

  std::string seen;

 private:
  std::unique_ptr<os::Net> net_ = os::make_sockets();
};

// A server and its clients over real sockets, with a clock of the test's.
class ServerTest : public ::testing::Test {
 protected:
  ServerTest()
      : net_(std::make_unique<Tapped>()),
        theirs_(os::make_sockets()),
        server_(*net_, {.host = fresh_name(), .local = true}, kRunToken,
                {.on_message = [this](os::ConnectionId,
                                      const Message& message) { got_.push_back(message); },
                 .on_closed = [this](os::ConnectionId) { ++closed_; }},
                {.strangers = 8}) {}

  std::unique_ptr<Link> link(const std::string& token = kRunToken) {
    auto made = std::make_unique<Link>(*theirs_, server_.address(), token, [](const Message&) {});
    made->tick(now_);
    return made;
  }

  // Handles what comes on both sides until `done`.
  void pump(const std::function<bool()>& done, const std::vector<Link*>& links = {}) {
    for (int i = 0; i < 3000 && !done(); ++i) {
      os::wait({net_->descriptor(), theirs_->descriptor()}, 0.02);
      for (const os::NetEvent& event : net_->take()) server_.handle(event, now_);
      for (const os::NetEvent& event : theirs_->take()) {
        for (Link* link : links) link->handle(event);
        if (event.kind == Happening::kClosed) ++hung_up_;
      }
    }
    EXPECT_TRUE(done());
  }

  std::unique_ptr<Tapped> net_;
  std::unique_ptr<os::Net> theirs_;
  Server server_;
  double now_ = 100;
  std::vector<Message> got_;
  int closed_ = 0, hung_up_ = 0;
};

// Plain text, a handshake that stops half way, and one of another token, 2,000 in all.
TEST_F(ServerTest, WhoKnowsTheTokenIsHeardAmongStrangers) {
  const std::string half = Sessions(kRunToken).connect(Caller::kAgent).greeting().substr(0, 100);
  const std::string other = Sessions("another token").connect(Caller::kAgent).greeting();
  const std::string says[] = {"GET / HTTP/1.1\r\n\r\n", half, other};
  const auto ours = link();
  for (std::uint64_t made = 0; made < 2000;) {
    for (const std::uint64_t until = made + 100; made < until; ++made)
      theirs_->send(theirs_->dial(server_.address()), says[made % 3]);
    pump(
        [&] {
          if (ours->connected()) ours->send(Report{.host = 7, .sequence = made});
          return server_.refused() + 8 >= made;
        },
        {ours.get()});
    if (!ours->connected()) ours->tick(now_ += 1);  // it was pushed out
  }
  got_.clear();
  pump(
      [&] {
        ours->tick(now_ += 0.01);
        ours->send(Report{.host = 7, .sequence = 1});
        return !got_.empty();
      },
      {ours.get()});
  EXPECT_TRUE(got_[0] == Message(Report{.host = 7, .sequence = 1}));
  EXPECT_GE(server_.refused(), 1992u) << "more than 8 strangers push each other out";
  EXPECT_EQ(closed_, 0) << "no client that had shown the token";
}

TEST_F(ServerTest, WhatIsSaidCannotBeReadOnTheWire) {
  const std::string marker = "a marker that is easy to find";
  const auto ours = link();
  pump(
      [&] {
        ours->send(Report{.host = 7, .sequence = 1, .name = marker});
        return !got_.empty();
      },
      {ours.get()});
  EXPECT_EQ(std::get<Report>(got_[0]).name, marker);
  EXPECT_GT(net_->seen.size(), 200u);
  EXPECT_EQ(net_->seen.find(marker), std::string::npos);
  EXPECT_EQ(net_->seen.find(kRunToken), std::string::npos);
}

// A connection from an address of this machine, which says nothing.
os::Descriptor silent_from(const char* address, int port) {
  os::Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in here{}, there{};
  here.sin_family = there.sin_family = AF_INET;
  ::inet_pton(AF_INET, address, &here.sin_addr);
  ::inet_pton(AF_INET, "127.0.0.1", &there.sin_addr);
  there.sin_port = htons(static_cast<std::uint16_t>(port));
  EXPECT_EQ(::bind(socket.get(), reinterpret_cast<sockaddr*>(&here), sizeof here), 0);
  EXPECT_EQ(::connect(socket.get(), reinterpret_cast<sockaddr*>(&there), sizeof there), 0);
  return socket;
}

bool ended(const os::Descriptor& socket) {
  char bytes[256];
  ssize_t got = 0;
  do got = ::recv(socket.get(), bytes, sizeof bytes, MSG_DONTWAIT);
  while (got > 0);
  return got == 0 || errno != EAGAIN;
}

TEST(ServerOnTcp, AFloodPushesOutItsOwnSourceAlone) {
  const auto net = os::make_sockets();
  Server server(
      *net, {.host = "127.0.0.1", .port = 0}, kRunToken,
      {.on_message = [](os::ConnectionId, const Message&) {}, .on_closed = [](os::ConnectionId) {}},
      {.strangers = 8});
  const auto serve = [&](std::uint64_t refused) {
    for (int i = 0; i < 3000 && server.refused() < refused; ++i) {
      os::wait({net->descriptor()}, 0.02);
      for (const os::NetEvent& event : net->take()) server.handle(event, 100);
    }
    EXPECT_EQ(server.refused(), refused);
  };
  const os::Descriptor ours = silent_from("127.0.0.2", server.address().port);
  std::vector<os::Descriptor> flood;
  for (int i = 0; i < 40; ++i) flood.push_back(silent_from("127.0.0.1", server.address().port));
  serve(33);  // of 41, of which 8 may stay
  EXPECT_FALSE(ended(ours)) << "the oldest of all, but not of the source that has the most";
  EXPECT_TRUE(ended(flood.front()));
  EXPECT_FALSE(ended(flood.back()));
}

TEST_F(ServerTest, StrangersHaveTwoSeconds) {
  const auto ours = link();
  pump([&] { return ours->send(Report{.sequence = 1}), !got_.empty(); }, {ours.get()});
  for (int i = 0; i < 5; ++i) {
    const os::ConnectionId slow = theirs_->dial(server_.address());
    if (i % 2 == 0) theirs_->send(slow, "x");  // a byte now and then does not help
  }
  int accepted = 0;
  pump([&] { return ++accepted > 10; }, {ours.get()});
  now_ += 1.9;
  server_.tick(now_);
  EXPECT_EQ(server_.refused(), 0u);
  now_ += 0.2;
  server_.tick(now_);
  EXPECT_EQ(server_.refused(), 5u);
  pump([&] { return hung_up_ == 5; }, {ours.get()});
  EXPECT_EQ(closed_, 0) << "who has shown the token may be silent";
}

TEST_F(ServerTest, AnotherTokenIsRefusedAndSaysSo) {
  const auto other = link("the token of another run");
  pump([&] { return server_.refused() == 1 && !other->trouble().empty(); }, {other.get()});
  EXPECT_TRUE(got_.empty());
}

TEST_F(ServerTest, NoiseOfAnyLengthIsRefused) {
  std::mt19937_64 random(3);
  for (int round = 1; round <= 100; ++round) {
    std::string noise(64 + random() % 100000, '\0');
    for (char& c : noise) c = static_cast<char>(random());
    theirs_->send(theirs_->dial(server_.address()), noise);
    pump([&] { return server_.refused() == static_cast<std::uint64_t>(round); });
  }
  EXPECT_TRUE(got_.empty());
}

TEST_F(ServerTest, ALinkConnectsAgain) {
  const os::Address where = server_.address();
  const auto early = std::make_unique<Link>(
      *theirs_, os::Address{.host = fresh_name(), .local = true}, kRunToken, [](const Message&) {});
  early->tick(now_);
  pump([&] { return !early->trouble().empty(); }, {early.get()});
  const os::ConnectionId before = theirs_->dial(where);
  early->tick(now_ + 0.1);
  EXPECT_EQ(theirs_->dial(where), before + 1) << "not at once";
  early->tick(now_ + 0.6);
  EXPECT_EQ(theirs_->dial(where), before + 3) << "but soon";
}

}  // namespace
}  // namespace trireme::elastic::server_test
