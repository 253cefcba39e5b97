#include "trireme/base/append_file.h"

#include <gtest/gtest.h>

#include "tests/formats/scratch.h"
#include "tests/harness/file_limit.h"
#include "trireme/base/error.h"

namespace trireme::append_file_test {
namespace {

TEST(AppendFile, Appends) {
  const formats::Scratch scratch;
  const Path path = scratch.write("log", "one\n");
  {
    AppendFile file(path);
    file.add("two\n");
    EXPECT_EQ(read_file(path), "one\ntwo\n") << "at once";
    file.add("three\n");
  }
  EXPECT_EQ(read_file(path), "one\ntwo\nthree\n");
  EXPECT_THROW(AppendFile(scratch / "none/log"), Error);
}

TEST(AppendFile, WhatHasNoRoomIsWrittenWhenThereIsSome) {
  const formats::Scratch scratch;
  const Path path = scratch / "log";
  AppendFile file(path);
  {
    const harness::FileLimit limit(6);
    file.add("one\n");
    file.add("two\n");
    file.add("three\n");
    EXPECT_EQ(read_file(path), "one\ntw") << "as far as there was room";
    EXPECT_THROW(file.finish(), Error);
  }
  file.add("four\n");
  EXPECT_EQ(read_file(path), "one\ntwo\nthree\nfour\n");
  file.finish();
}

}  // namespace
}  // namespace trireme::append_file_test
