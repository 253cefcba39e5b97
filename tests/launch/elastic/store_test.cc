#include "trireme/launch/elastic/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "trireme/base/error.h"
#include "trireme/base/hash.h"
#include "trireme/launch/elastic/frame.h"

namespace trireme::elastic::store_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using What = StoreRequest::Kind;

class StoreTest : public ::testing::Test {
 protected:
  StoreTest() { store_.serve(3); }

  StoreReply ask(StoreRequest request) {
    request.generation = 3;
    const Store::Replies replies = store_.ask(7, request);
    return replies.empty() ? StoreReply{.id = 404} : replies[0].second;
  }

  Store store_;
};

TEST_F(StoreTest, SetsGetsAddsComparesDeletes) {
  EXPECT_EQ(ask({.kind = What::kCheck, .key = "k"}).number, 0);
  ask({.kind = What::kSet, .key = "k", .value = "v"});
  EXPECT_EQ(ask({.kind = What::kGet, .key = "k"}).value, "v");
  EXPECT_EQ(ask({.kind = What::kCheck, .key = "k"}).number, 1);
  EXPECT_EQ(ask({.kind = What::kAdd, .key = "n", .amount = 5}).number, 5);
  EXPECT_EQ(ask({.kind = What::kAdd, .key = "n", .amount = -7}).number, -2);
  EXPECT_EQ(ask({.kind = What::kGet, .key = "n"}).value, "-2") << "as c10d's stores keep it";
  EXPECT_EQ(ask({.kind = What::kCount}).number, 2);
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(ask({.kind = What::kAdd, .key = "n", .amount = kMost}).number, kMost - 2);
  EXPECT_EQ(ask({.kind = What::kAdd, .key = "n", .amount = 3}).number, -kMost - 1) << "wraps";
  EXPECT_EQ(ask({.kind = What::kDelete, .key = "n"}).number, 1);
  EXPECT_EQ(ask({.kind = What::kDelete, .key = "n"}).number, 0);
}

TEST_F(StoreTest, TheFirstToCompareSets) {
  const auto compare_set = [&](const char* expected, const char* value) {
    return ask({.kind = What::kCompareSet, .key = "k", .value = value, .expected = expected}).value;
  };
  EXPECT_EQ(compare_set("other", "x"), "other") << "missing, and not expected to be";
  EXPECT_EQ(compare_set("", "first"), "first");
  EXPECT_EQ(compare_set("", "second"), "first");
  EXPECT_EQ(compare_set("first", "second"), "second");
}

TEST_F(StoreTest, WhoWaitsIsAnsweredWhenTheKeyComes) {
  EXPECT_THAT(store_.ask(1, {.id = 11, .generation = 3, .kind = What::kWait, .key = "k"}),
              IsEmpty());
  EXPECT_THAT(store_.ask(2, {.id = 22, .generation = 3, .kind = What::kGet, .key = "k"}),
              IsEmpty());
  EXPECT_THAT(store_.ask(4, {.id = 44, .generation = 3, .kind = What::kGet, .key = "k"}),
              IsEmpty());
  store_.forget(4);
  EXPECT_THAT(
      store_.ask(3, {.id = 33, .generation = 3, .kind = What::kSet, .key = "k", .value = "v"}),
      ElementsAre(Pair(3, StoreReply{.id = 33}), Pair(1, StoreReply{.id = 11}),
                  Pair(2, StoreReply{.id = 22, .value = "v"})));
}

TEST_F(StoreTest, AnotherGenerationSeesNothingAndIsRefused) {
  ask({.kind = What::kSet, .key = "k", .value = "old"});
  store_.ask(1, {.id = 11, .generation = 3, .kind = What::kWait, .key = "never"});
  EXPECT_THAT(store_.serve(4), ElementsAre(Pair(1, StoreReply{.id = 11, .served = false})));
  EXPECT_FALSE(ask({.kind = What::kSet, .key = "k", .value = "zombie"}).served);
  EXPECT_EQ(store_.ask(2, {.generation = 4, .kind = What::kCheck, .key = "k"})[0].second.number, 0);
  store_.serve(0);
  EXPECT_FALSE(store_.ask(2, {.generation = 4, .kind = What::kCheck})[0].second.served);
  EXPECT_FALSE(store_.ask(2, {.generation = 0, .kind = What::kCheck})[0].second.served);
}

// One of each kind, in which nothing is as it would be by itself.
std::vector<Message> one_of_each() {
  const Outcome outcome{.exit_code = -4, .rank = -1, .cause = "why", .signal = 9};
  return {
      Report{1, 2, "name", "run", 3, 4, 5, Report::Ranks::kGone, 6, Order::What::kRun, outcome, 15},
      Order{1, 2, {3, 4, 5, 6}, Order::What::kFinish, outcome},
      StoreRequest{1, 2, What::kCompareSet, "key", std::string("\0v", 2), "expected", -3},
      StoreReply{1, false, -5, "value"},
      Silence{1,
              2,
              {{.state = {.rank = 3,
                          .moves = 4,
                          .phase = watch::Phase::kTraining,
                          .step = 5,
                          .line = -1,
                          .line_text = "forward",
                          .waiting = true,
                          .operations = {{"dp", {0, 3}, "all_reduce", 6, 7, -1}},
                          .reached = {{"dp", {0, 3}, 7}},
                          .process = 'T'},
                .seconds = 5.5,
                .in_step = true,
                .details = "lines\n"},
               {.state = {.rank = 4}, .seconds = 6, .same = true}}}};
}

// Two builds that speak differently must not take each other for one that speaks alike.
TEST(Messages, OtherBytesAreAnotherVersion) {
  std::string bytes;
  for (const Message& message : one_of_each()) bytes += encode(message);
  EXPECT_EQ(hex64(hash64(bytes)), "c721a648d60f4dea")
      << "messages have other bytes: count kControlVersion of frame.h up, then note both here";
  EXPECT_EQ(kControlVersion, "trireme elastic 6");
}

TEST(Messages, ReadBack) {
  std::mt19937_64 random(1);
  int taken = 0;
  for (const Message& message : one_of_each()) {
    const std::string bytes = encode(message);
    EXPECT_TRUE(decode(bytes) == message);
    for (std::size_t size = 0; size < bytes.size(); ++size)
      EXPECT_THROW(decode(bytes.substr(0, size)), Error) << size;
    EXPECT_THROW(decode(bytes + "x"), Error);
    for (int round = 0; round < 1000;
         ++round) {  // refused, or read as something else: never more than that
      std::string broken = bytes;
      broken[random() % broken.size()] = static_cast<char>(random());
      try {
        EXPECT_EQ(encode(decode(broken)), broken);
        taken += broken != bytes;
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::kPeerLost);
      }
    }
  }
  // Control of frame_test: without a digest of each frame, what a network damages would be believed.
  EXPECT_GT(taken, 100);
  EXPECT_THROW(decode(encode(StoreRequest{.key = std::string(kLongestKey + 1, 'k')})), Error);
}

}  // namespace
}  // namespace trireme::elastic::store_test
