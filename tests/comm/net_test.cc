// Streams between ranks: what an eavesdropper, a forger and a stranger can do, and what they cannot.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <functional>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/harness/ranks.h"
#include "trireme/base/error.h"
#include "trireme/base/ports.h"
#include "trireme/comm/net/mesh.h"
#include "trireme/comm/net/stream.h"

namespace trireme::comm::net_test {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr char kToken[] = "a token that no stranger has";
constexpr char kName[] = "run|0|1|stream 0";

std::pair<os::Descriptor, os::Descriptor> socket_pair() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    throw std::runtime_error("socketpair");
  return {os::Descriptor(ends[0]), os::Descriptor(ends[1])};
}

// Stands between a client and a server and passes on what they send, as `change` leaves it.
class Between {
 public:
  using Change = std::function<std::string(bool from_client, std::string)>;
  explicit Between(Change change = [](bool, std::string bytes) { return bytes; })
      : change_(std::move(change)) {
    auto [client, near_client] = socket_pair();
    auto [server, near_server] = socket_pair();
    client_ = std::move(client);
    server_ = std::move(server);
    ends_[0] = std::move(near_client);
    ends_[1] = std::move(near_server);
    thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  }
  os::Descriptor take_client() { return std::move(client_); }
  os::Descriptor take_server() { return std::move(server_); }
  std::string seen() {
    thread_.request_stop();
    thread_.join();
    return seen_;
  }

 private:
  void run(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      pollfd waiting[2] = {{ends_[0].get(), POLLIN, 0}, {ends_[1].get(), POLLIN, 0}};
      ::poll(waiting, 2, 20);
      for (int i = 0; i < 2; ++i) {
        if ((waiting[i].revents & POLLIN) == 0) continue;
        char bytes[65536];
        const ssize_t n = ::read(ends_[i].get(), bytes, sizeof bytes);
        if (n <= 0) return;
        seen_.append(bytes, static_cast<std::size_t>(n));
        const std::string passed = change_(i == 0, {bytes, static_cast<std::size_t>(n)});
        for (std::size_t sent = 0; sent < passed.size();) {
          const ssize_t m =
              ::send(ends_[1 - i].get(), passed.data() + sent, passed.size() - sent, MSG_NOSIGNAL);
          if (m <= 0) return;
          sent += static_cast<std::size_t>(m);
        }
      }
    }
  }

  Change change_;
  os::Descriptor client_, server_, ends_[2];
  std::string seen_;
  std::jthread thread_;
};

// Sends the text and returns what arrives; throws what either end does.
std::string carried(Stream& from, Stream& to, const std::string& text) {
  std::string arrived(text.size(), '\0');
  std::size_t sent = 0, got = 0;
  const auto begin = std::chrono::steady_clock::now();
  while (got < text.size()) {
    if (sent < text.size())
      sent +=
          from.write(reinterpret_cast<const std::byte*>(text.data()) + sent, text.size() - sent);
    got += to.read(reinterpret_cast<std::byte*>(arrived.data()) + got, text.size() - got);
    if (std::chrono::steady_clock::now() - begin > std::chrono::seconds(60))
      throw std::runtime_error("nothing more came");
  }
  return arrived;
}

std::string failure_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

const std::string kText = [] {
  std::string text;
  for (int i = 0; i < 20'000; ++i) text += "gradient " + std::to_string(i) + ";";
  return text;
}();

TEST(TlsStream, CarriesBytesThatNobodyBetweenCanRead) {
  const Tls tls(kToken);
  Between between;
  const auto client = make_tls_client(tls, between.take_client(), kName);
  const auto server = make_tls_server(tls, between.take_server(), tls.expect({kName}));
  EXPECT_EQ(carried(*client, *server, kText), kText);
  EXPECT_EQ(carried(*server, *client, kText), kText);
  const std::string seen = between.seen();
  EXPECT_GT(seen.size(), 2 * kText.size());
  EXPECT_EQ(seen.find("gradient"), std::string::npos);
  EXPECT_EQ(seen.find(kToken), std::string::npos);
}

TEST(PlainStream, CanBeRead) {
  Between between;
  const auto client = make_plain_stream(between.take_client());
  const auto server = make_plain_stream(between.take_server());
  EXPECT_EQ(carried(*client, *server, kText), kText);
  EXPECT_THAT(between.seen(), HasSubstr("gradient"));
}

TEST(TlsStream, NeedsTheSameToken) {
  const Tls ours(kToken), theirs("a token of another run");
  Between between;
  const auto client = make_tls_client(ours, between.take_client(), kName);
  const auto server = make_tls_server(theirs, between.take_server(), theirs.expect({kName}));
  EXPECT_NE(failure_of([&] { carried(*client, *server, kText); }), "");
}

TEST(TlsStream, RefusesPlainText) {
  const Tls tls(kToken);
  Between between;
  const auto client = make_plain_stream(between.take_client());
  const auto server = make_tls_server(tls, between.take_server(), tls.expect({kName}));
  EXPECT_THAT(failure_of([&] { carried(*client, *server, kText); }), HasSubstr("TLS"));
}

// Each change is made once, to bytes that come when the handshake is over.
TEST(TlsStream, FindsAChangedARepeatedAndALostRecord) {
  const Tls tls(kToken);
  const std::vector<std::pair<const char*, std::function<std::string(std::string)>>> changes = {
      {"a flipped bit",
       [](std::string bytes) {
         bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
         return bytes;
       }},
      {"a replay", [](const std::string& bytes) { return bytes + bytes; }},
      {"a loss", [](const std::string&) { return std::string(); }}};
  for (const auto& [what, change] : changes) {
    std::atomic<bool> armed = false;
    Between between([&, &change = change](bool from_client, std::string bytes) {
      return from_client && armed.exchange(false) ? change(std::move(bytes)) : bytes;
    });
    const auto client = make_tls_client(tls, between.take_client(), kName);
    const auto server = make_tls_server(tls, between.take_server(), tls.expect({kName}));
    ASSERT_EQ(carried(*client, *server, "first"), "first");
    armed = true;
    const std::string why = failure_of([&] {
      client->write(reinterpret_cast<const std::byte*>("second"), 6);
      while (armed) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      carried(*client, *server, what == std::string("a loss") ? "third" : "secondthird");
      carried(*client, *server, "fourth");
    });
    EXPECT_THAT(why, HasSubstr("TLS")) << what;
  }
}

TEST(Streams, ARankWithAnotherTokenIsNotTaken) {
  harness::ignore_sigpipe();
  for (const Route route : {Route::kTcp, Route::kTls}) {
    const int port = free_port();
    std::string why[2];
    std::vector<std::jthread> ranks;
    for (int rank = 0; rank < 2; ++rank)
      ranks.emplace_back([&, rank] {
        why[rank] = failure_of([&] {
          connect_processes({.rank = rank,
                             .size = 2,
                             .port = port,
                             .agent_token = std::string(kToken) + std::to_string(rank),
                             .connect_timeout_s = 2},
                            route);
        });
      });
    ranks.clear();
    EXPECT_THAT(why[0], AnyOf(HasSubstr("rank 1 has not connected within 2 s"),
                              HasSubstr("another rank could not connect: rank 1: no connection")));
    EXPECT_THAT(why[1], HasSubstr("no connection to rank 0 within 2 s"));
  }
}

TEST(Streams, TlsNeedsAToken) {
  harness::ignore_sigpipe();
  const int port = free_port();
  std::vector<std::jthread> ranks;
  for (int rank = 0; rank < 2; ++rank)
    ranks.emplace_back([&, rank] {
      EXPECT_THAT(failure_of([&] {
                    connect_processes({.rank = rank, .size = 2, .port = port}, Route::kTls);
                  }),
                  HasSubstr("trireme launch"));
    });
}

// Ports of this network space on which somebody listens.
std::set<int> listening() {
  std::set<int> ports;
  std::ifstream table("/proc/net/tcp");
  std::string line;
  std::getline(table, line);
  while (std::getline(table, line)) {
    std::istringstream words(line);
    std::string number, local, remote, state;
    words >> number >> local >> remote >> state;
    if (state == "0A") ports.insert(std::stoi(local.substr(local.find(':') + 1), nullptr, 16));
  }
  return ports;
}

// Connects to every port that was not there before: says nothing, nonsense, or ends at once.
class Strangers {
 public:
  Strangers() {
    thread_ = std::jthread([this](const std::stop_token& stop) {
      std::vector<os::Descriptor> open;
      for (int round = 0; !stop.stop_requested(); ++round)
        for (const int port : listening()) {
          if (before_.contains(port)) continue;
          os::Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
          sockaddr_in address{};
          address.sin_family = AF_INET;
          address.sin_port = htons(static_cast<std::uint16_t>(port));
          address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
          if (::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
            continue;
          const std::string nonsense(300, static_cast<char>(round));
          if (round % 3 == 0) continue;
          if (round % 3 == 1)
            (void)::send(socket.get(), nonsense.data(), nonsense.size(), MSG_NOSIGNAL);
          open.push_back(std::move(socket));
          ++made_;
          if (open.size() > 400) open.clear();
        }
    });
  }
  int made() const { return made_; }

 private:
  std::set<int> before_ = listening();
  std::atomic<int> made_ = 0;
  std::jthread thread_;
};

TEST(Streams, StrangersWhileRanksConnectChangeNothing) {
  harness::ignore_sigpipe();
  const Tls tls(kToken);
  for (const Tls* with : {static_cast<const Tls*>(nullptr), &tls}) {
    const Strangers strangers;
    const int port = free_port();
    Streams streams[2];
    std::vector<std::jthread> ranks;
    for (int rank = 0; rank < 2; ++rank)
      ranks.emplace_back([&, rank] {
        Rendezvous rendezvous({.rank = rank, .size = 2, .port = port, .agent_token = kToken});
        // Rank 0 listens meanwhile.
        while (rank == 1 && strangers.made() < 200)
          std::this_thread::sleep_for(std::chrono::milliseconds(10));
        streams[rank] = Mesh(rendezvous, {1 - rank}, 3, with).connect();
      });
    ranks.clear();
    for (std::size_t i = 0; i < 3; ++i)
      EXPECT_EQ(carried(*streams[0].at(1)[i], *streams[1].at(0)[i], kText), kText);
  }
}

// More than sockets hold, while the receiver is busy; the sender is gone when it looks.
TEST(Streams, WhatWasSentBeforeARankLeavesArrives) {
  constexpr int kMessages = 20'000;
  for (const harness::Backend backend : {harness::Backend::kTcp, harness::Backend::kTls})
    harness::run_ranks(backend, 2, 60, [&](World& world) {
      const auto group = world.make_group("data", {0, 1});
      std::vector<double> x(100);
      if (world.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(300));
      for (int i = 0; i < kMessages; ++i) {
        const Buffer buffer{x.data(), static_cast<std::int64_t>(x.size()), DType::kF64};
        if (world.rank() == 0) {
          x.assign(x.size(), i);
          group->send(buffer, 1).wait();
        } else {
          group->recv(buffer, 0).wait();
          ASSERT_EQ(x, std::vector<double>(x.size(), i));
        }
      }
    });
}

}  // namespace
}  // namespace trireme::comm::net_test
