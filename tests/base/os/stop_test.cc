#include "trireme/base/os/stop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

namespace trireme::os::stop_test {
namespace {

using ::testing::HasSubstr;
using Means = StopRequest::Means;

TEST(Stop, TheFirstSignalAsksToSaveAndALaterInterruptToEndAtOnce) {
  StopRequest request;
  EXPECT_EQ(request.take(SIGINT, 10), Means::kSave);
  EXPECT_EQ(request.take(SIGINT, 10.04), Means::kNothing) << "one Ctrl-C that came twice";
  EXPECT_FALSE(request.at_once());
  EXPECT_EQ(request.take(SIGINT, 11.5), Means::kAtOnce);
  EXPECT_EQ(request.take(SIGINT, 13), Means::kNothing) << "once";
  EXPECT_EQ(request.signal(), SIGINT);
}

TEST(Stop, NoOtherSignalEndsARunAtOnce) {
  for (const int first : {SIGTERM, SIGHUP, SIGUSR1}) {
    StopRequest request;
    EXPECT_EQ(request.take(first, 0), Means::kSave);
    for (const int second : {SIGTERM, SIGHUP, SIGUSR1})
      EXPECT_EQ(request.take(second, 10), Means::kNothing);
    EXPECT_EQ(request.take(SIGINT, 20), Means::kAtOnce);
    EXPECT_EQ(request.signal(), first);
    EXPECT_THAT(request.note(), HasSubstr(signal_name(first) + " received"));
  }
}

TEST(Stop, WhatWasIgnoredStaysIgnored) {
  const auto takes = [](int number) {
    const sigset_t set = stop_signals();
    return ::sigismember(&set, number) == 1;
  };
  struct sigaction before {
  }, ignored{};
  ignored.sa_handler = SIG_IGN;
  ASSERT_EQ(::sigaction(SIGHUP, &ignored, &before), 0);
  EXPECT_FALSE(takes(SIGHUP));
  restore_stop_signals();
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGUSR1}) EXPECT_TRUE(takes(number));
  EXPECT_FALSE(takes(SIGUSR2));
  ::sigaction(SIGHUP, &before, nullptr);
}

}  // namespace
}  // namespace trireme::os::stop_test
