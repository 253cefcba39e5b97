// A directory that lives as long as a test, and the usual question to a reader of broken input.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <span>
#include <string>

#include "tests/harness/scratch_directory.h"
#include "trireme/base/error.h"

namespace trireme::formats {

using Scratch = harness::ScratchDirectory;

// The message of the Error{kind} that `call` throws; a test failure when it throws none, another
// kind or more than one line.
inline std::string refusal(const std::function<void()>& call, ErrorKind kind = ErrorKind::kData) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    const std::string message = error.what();
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    return message;
  }
  ADD_FAILURE() << "was accepted";
  return {};
}

// Damages a copy of `good` `rounds` times (flipped bytes, cuts, additions; fixed seed) and hands it
// to `read`, which may accept it or throw Error, and nothing else.
inline void mutate(const std::string& good, int rounds,
                   const std::function<void(const std::string&)>& read) {
  std::mt19937_64 random(20261121);
  for (int round = 0; round < rounds; ++round) {
    std::string bad = good;
    const int edits = 1 + static_cast<int>(random() % 4);
    for (int edit = 0; edit < edits && !bad.empty(); ++edit) {
      const std::size_t at = random() % bad.size();
      switch (random() % 5) {
        case 0: bad[at] = static_cast<char>(random()); break;
        case 1: bad[at] = static_cast<char>(bad[at] ^ (1 << (random() % 8))); break;
        case 2: bad.resize(at); break;
        case 3: bad.insert(at, 1 + random() % 9, static_cast<char>(random())); break;
        default: bad.erase(at, 1 + random() % 9);
      }
    }
    try {
      read(bad);
    } catch (const Error& error) {
      EXPECT_NE(error.kind(), ErrorKind::kInternal) << error.what();
    }
  }
}

inline std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace trireme::formats
