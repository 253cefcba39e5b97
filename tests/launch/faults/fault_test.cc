#include "trireme/launch/faults/fault.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "trireme/base/error.h"

namespace trireme::faults::fault_test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(Fault, IsReadAndPrintedAsTheSame) {
  const std::string text =
      "rank=1 step=41 line=7: kill; fs.fsync=3: error=EIO ;rank=0 generation=2 group=dp op=88: "
      "delay=300ms; generation=each phase=checkpoint fs.write=5: short=50;"
      "rank=1 start=links: exit=0; what=all_gather op-end=4: throw; fs.write=2: torn=512;"
      "rank=1 op=3 chunk=2: kill; step=3 mem.write=2: flip; mem=1: error=ENOSPC";
  const std::vector<Fault> faults = parse(text);
  ASSERT_THAT(faults, SizeIs(10));
  EXPECT_EQ(faults[0],
            (Fault{.rank = 1, .step = 41, .line = 7, .action = Action::kKill, .amount = 0}));
  EXPECT_EQ(faults[1].call, DiskCall::kFsync);
  EXPECT_EQ(faults[1].nth, 3u);
  EXPECT_EQ(faults[1].amount, EIO);
  EXPECT_EQ(faults[2].amount, 300);
  EXPECT_TRUE(faults[3].each_generation);
  EXPECT_EQ(faults[7], (Fault{.rank = 1, .op = 3, .chunk = 2, .action = Action::kKill}));
  EXPECT_EQ(faults[8].call, DiskCall::kWrite);
  EXPECT_TRUE(faults[8].in_memory);
  EXPECT_FALSE(faults[1].in_memory);
  EXPECT_EQ(faults[9].call, DiskCall::kAny);
  for (const Fault& fault : faults) EXPECT_EQ(parse(print(fault)), std::vector{fault});
  EXPECT_EQ(print(faults[2]), "rank=0 generation=2 group=dp op=88: delay=300ms");
  EXPECT_THAT(parse(" ; "), IsEmpty());
}

TEST(Fault, WhatIsNoneIsRefusedWithItsPlaceAndTheWayOut) {
  const auto refused = [](const std::string& text, const std::string& where,
                          const std::string& needs) {
    try {
      parse(text);
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage);
      EXPECT_THAT(error.what(), HasSubstr("--faults, character " + where + ":"));
      EXPECT_THAT(error.what(), HasSubstr(needs));
    }
  };
  refused("step=1: kill; stpe=41: kill", "15", "rank generation start phase step");
  refused("step=x: kill", "6", "whole number from 0");
  refused("step=-1: kill", "6", "whole number");
  refused("rank=1048577 step=1: kill", "6", "from 0 to 1048576");
  refused("phase=checkpont: kill", "7", "start training evaluation checkpoint");
  refused("start=mush: kill", "7", "process store ranks links mesh");
  refused("step=1: kil", "9", "kill stop term abort exit delay");
  refused("step=1: kill=3", "9", "takes no value");
  refused("step=1: exit=256", "14", "0 to 255");
  refused("step=1: delay=3", "15", "delay=300ms");
  refused("step=1: delay=3m00ms", "15", "whole number");
  refused("fs=1: error=EWHAT", "13", "EACCES EDQUOT");
  refused("fs=0: kill", "4", "from 1");
  refused("step=1 what=: kill", "13", "needs a name");
  refused("step=1", "1", "CONDITIONS: ACTION");
  refused("rank=1 generation=2: kill", "1", "says where by none of");
  refused("start=mesh step=1: kill", "1", "no step");
  refused("fs=1 line=3: kill", "1", "no line");
  refused("fs=1 fs.write=1: kill", "6", "one disk call");
  refused("op=1 op-end=1: kill", "1", "give one");
  refused("op-end=1 chunk=1: kill", "1", "at no chunk");
  refused("start=mesh chunk=1: kill", "1", "no step");
  refused("fs=1 chunk=0: kill", "1", "no operation");
  refused("step=1: error=EIO", "1", "give fs");
  refused("fs=1: short=3", "1", "fs.write");
  refused("mem=1: flip", "1", "mem.write");
  refused("fs=1 mem=1: kill", "6", "one disk call");
  refused("memory=1: kill", "1", "no such condition");
}

}  // namespace
}  // namespace trireme::faults::fault_test
