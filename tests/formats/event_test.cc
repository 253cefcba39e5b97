#include "trireme/formats/event.h"

#include <gtest/gtest.h>

namespace trireme::formats::event_test {
namespace {

TEST(Event, IsOneLineOfJson) {
  const std::chrono::system_clock::time_point time(std::chrono::seconds(1'700'000'000));
  EXPECT_EQ(
      event_line({.kind = "rank killed",
                  .rank = 1,
                  .host = "n1",
                  .step = 44,
                  .op = "training",
                  .cause = "a \"quoted\"\nline",
                  .action = "restart",
                  .lost_s = 1.23456,
                  .generation = 2},
                 time),
      R"({"time":"2023-11-14T22:13:20Z","class":"rank killed","rank":1,"host":"n1","step":44,)"
      R"("op":"training","cause":"a \"quoted\"\nline","action":"restart","lost_s":1.235,"generation":2})");
}

}  // namespace
}  // namespace trireme::formats::event_test
