// Packets that bench/network/slow_path holds: order, delay, and losses that repeat with the seed.
#include "bench/network/held.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace trireme::bench {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

// Packets released at `now`, as "receiver:text".
std::vector<std::string> released(HeldPackets& held, Time now) {
  std::vector<std::string> texts;
  held.release(now, [&](std::size_t to, std::span<const std::byte> packet) {
    texts.push_back(std::to_string(to) + ":" +
                    std::string(reinterpret_cast<const char*>(packet.data()), packet.size()));
  });
  return texts;
}

// Numbers of the packets that sender 0 loses, with a packet of sender 1 after each if `other` says so.
std::vector<int> losses(std::uint64_t seed, int packets, bool other) {
  HeldPackets held({.delay = 0ms, .loss = 0.01, .seed = seed});
  std::vector<int> lost;
  for (int i = 0; i < packets; ++i) {
    held.take(0, 1, bytes_of("a"), 0ms);
    if (other) held.take(1, 0, bytes_of("b"), 0ms);
    bool arrived = false;
    for (const std::string& text : released(held, 0ms)) arrived = arrived || text == "1:a";
    if (!arrived) lost.push_back(i);
  }
  return lost;
}

TEST(HeldPackets, EachIsReleasedAfterTheDelayInOrderOfArrival) {
  HeldPackets held({.delay = 50ms});
  held.take(0, 1, bytes_of("first"), 10ms);
  held.take(1, 0, bytes_of("second"), 20ms);
  held.take(0, 1, bytes_of("third"), 61ms);
  EXPECT_EQ(held.next_release(), Time(60ms));
  EXPECT_THAT(released(held, 59ms), ElementsAre());
  EXPECT_THAT(released(held, 71ms), ElementsAre("1:first", "0:second"));
  EXPECT_THAT(released(held, 200ms), ElementsAre("1:third"));
  EXPECT_TRUE(held.empty());
}

TEST(HeldPackets, LossesFollowTheSeedAndTheSendersOwnPackets) {
  const std::vector<int> lost = losses(1, 20000, false);
  EXPECT_NEAR(static_cast<double>(lost.size()), 200, 60);
  EXPECT_EQ(losses(1, 20000, true), lost);
  EXPECT_NE(losses(2, 20000, false), lost);
}

TEST(HeldPackets, HoldNoMoreBytesThanThePathHas) {
  HeldPackets held({.delay = 1ms, .bytes = 4});
  for (const char* text : {"abc", "de", "f"}) held.take(0, 1, bytes_of(text), 0ms);
  EXPECT_EQ(held.counts()[0].dropped, 1);
  EXPECT_THAT(released(held, 1ms), ElementsAre("1:abc", "1:f"));
  held.take(0, 1, bytes_of("full"), 2ms);
  EXPECT_THAT(released(held, 3ms), ElementsAre("1:full"));
}

}  // namespace
}  // namespace trireme::bench
