// What an action throws: the message of an Error of the expected kind.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "trireme/base/error.h"

namespace trireme::config {

// The message of the Error{kUsage} that `action` throws, checked to be one line.
template <typename Action>
std::string usage_error_of(Action action) {
  try {
    action();
  } catch (const Error& e) {
    const std::string message = e.what();
    EXPECT_EQ(e.kind(), ErrorKind::kUsage) << message;
    EXPECT_EQ(std::ranges::count(message, '\n'), 0) << message;
    EXPECT_LT(message.size(), 400u) << message;
    return message;
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

}  // namespace trireme::config
