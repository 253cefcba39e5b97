// What a test needs of the machine, by name: the one place where tests are skipped.
#pragma once

#include <gtest/gtest.h>

#include <string>

// Skips the test, or the tests of a fixture's SetUp, where `reason` says why `name` is not there and where it would be;
// an empty text: it is there. CONTRIBUTING.md lists the names. So every skip prints its name and reason: ctest
// `layers` refuses any other.
#define TRIREME_NEEDS(name, reason) \
  if (const std::string why = (reason); !why.empty()) GTEST_SKIP() << "needs " name ": " << why
