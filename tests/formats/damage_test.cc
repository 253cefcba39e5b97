// Every bit and every length of a checkpoint: what is not as it was written is refused, by name.
#include "tests/harness/damage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/harness/memory_files.h"
#include "tests/harness/small_checkpoint.h"
#include "trireme/base/error.h"

namespace trireme::formats::damage_test {
namespace {

using harness::MemoryFiles;
using harness::SmallCheckpoint;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const Path kStep = "/step-2";

harness::DamageCheck small_checkpoint() {
  const SmallCheckpoint checkpoint{.elements = 12};
  MemoryFiles files;
  checkpoint.save(files, "/", 2);
  EXPECT_TRUE(checkpoint.intact(files, kStep));
  return harness::DamageCheck(harness::HeldFiles(kStep, files));
}

TEST(Damage, OfAnyBitAndLengthIsRefusedByName) {
  harness::DamageCheck check = small_checkpoint();
  ASSERT_EQ(check.files().files().size(), 3u);
  std::int64_t all = 0;
  for (const auto& [name, bytes] : check.files().files())
    all += 9 * static_cast<std::int64_t>(bytes.size()) + 1;
  check.everything();
  EXPECT_EQ(check.tried(), all);
  EXPECT_THAT(check.wrong(), IsEmpty());
  EXPECT_EQ(check.refusal(), "") << "as it was";
}

TEST(Damage, ThatIsNoneIsNoticedByTheCheck) {
  harness::DamageCheck check = small_checkpoint();
  const std::string name = "rank-0.safetensors";
  check.cut(name, check.files().files().at(name).size());
  EXPECT_THAT(check.wrong(), ElementsAre(HasSubstr("accepted")));
}

// Blocks place damage: the bytes, the tensors in them, how much of the file.
TEST(DamageInLargeFiles, IsPlaced) {
  MemoryFiles files;
  const SmallCheckpoint checkpoint{.ranks = 1, .elements = 3 << 18};  // 3 MiB of each kind
  checkpoint.save(files, "/", 2);
  const auto refusal_of = [&](std::initializer_list<std::size_t> places) {
    MemoryFiles damaged(files.disk());
    for (const std::size_t place : places)
      damaged.disk().nodes.at(damaged.disk().find(kStep / "rank-0.safetensors")).bytes.at(place) ^=
          1;
    try {
      open_checkpoint(kStep, damaged);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  constexpr std::size_t kMib = 1 << 20;
  EXPECT_EQ(refusal_of({}), "");
  EXPECT_EQ(refusal_of({kMib + 5}),
            "/step-2/rank-0.safetensors: bytes 1048576 to 2097152 are not those that were written "
            "(tensor \"u.exp_avg\"); 1 of 7 blocks differ");
  EXPECT_THAT(refusal_of({3 * kMib, 4 * kMib + 1}),
              HasSubstr("bytes 3145728 to 4194304 are not those that were written (tensors "
                        "\"u.exp_avg\" to \"u.param\"); 2 of 7 blocks differ"));
  EXPECT_THAT(refusal_of({6 * kMib + 1}), HasSubstr("bytes 6291456 to 6291"));
  EXPECT_THAT(refusal_of({9}), HasSubstr("its header cannot be read"));
  EXPECT_THAT(refusal_of({kMib - 1}), HasSubstr("(the header and tensor \"u.exp_avg\")"));
}

}  // namespace
}  // namespace trireme::formats::damage_test
