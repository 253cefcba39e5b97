// Entries are found as they were kept, by whoever comes later; damaged ones are named and not used.
#include "trireme/formats/feature_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "tests/harness/scratch_directory.h"
#include "trireme/base/error.h"

namespace trireme::formats::feature_store_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using FeatureBytes = std::vector<std::byte>;

FeatureBytes feature_bytes(int value, std::size_t size = 100) {
  return FeatureBytes(size, static_cast<std::byte>(value));
}

TEST(FeatureStore, FindsWhatWasKeptOfTheSameInputByTheSameNetwork) {
  const harness::ScratchDirectory scratch;
  const ContentHash a = content_hash(feature_bytes(1)), b = content_hash(feature_bytes(2));
  FeatureStore(scratch.path(), 7).keep(a, feature_bytes(3));
  const FeatureStore store(scratch.path(), 7);
  EXPECT_EQ(store.find(a, 100), feature_bytes(3));
  EXPECT_EQ(store.find(b, 100), std::nullopt);
  EXPECT_EQ(FeatureStore(scratch.path(), 8).find(a, 100), std::nullopt);
  EXPECT_NE(content_hash(feature_bytes(1, 99)), a);
  EXPECT_THAT(store.damaged(), IsEmpty());
}

TEST(FeatureStore, DamageIsNamedAndMendedByKeepingItAgain) {
  const harness::ScratchDirectory scratch;
  const FeatureStore store(scratch.path(), 7);
  const ContentHash input = content_hash(feature_bytes(1));
  const auto expect_damaged = [&](const char* cause) {
    EXPECT_EQ(store.find(input, 100), std::nullopt);
    EXPECT_THAT(store.damaged().back(), HasSubstr(store.path(input).string()));
    EXPECT_THAT(store.damaged().back(), HasSubstr(cause));
    store.keep(input, feature_bytes(3));
    EXPECT_EQ(store.find(input, 100), feature_bytes(3));
  };
  store.keep(input, feature_bytes(3));
  std::string bytes = read_file(store.path(input));
  bytes.back() ^= 1;
  write_file_synced(store.path(input), bytes);
  expect_damaged("hash");
  std::filesystem::resize_file(store.path(input), 60);
  expect_damaged("60 bytes instead of 140");
  // An entry under the name of another one.
  const ContentHash other = content_hash(feature_bytes(2));
  store.keep(other, feature_bytes(4));
  std::filesystem::copy_file(store.path(other), store.path(input),
                             std::filesystem::copy_options::overwrite_existing);
  expect_damaged("hash");
  EXPECT_EQ(store.damaged().size(), 3U);
}

TEST(FeatureStore, ManyMayKeepTheSameAtOnce) {
  const harness::ScratchDirectory scratch;
  const FeatureStore store(scratch.path(), 7);
  const ContentHash input = content_hash(feature_bytes(1));
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i)
      threads.emplace_back([&] {
        for (int round = 0; round < 20; ++round) {
          store.keep(input, feature_bytes(3));
          EXPECT_EQ(store.find(input, 100), feature_bytes(3));
        }
      });
  }
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(store.path(input).parent_path()))
    names.push_back(entry.path().filename().string());
  EXPECT_THAT(names, ElementsAre(store.path(input).filename().string()));
}

TEST(FeatureStore, AFullOrMissingDiskIsAnErrorWithTheKey) {
  const harness::ScratchDirectory scratch;
  scratch.write("file", "no directory");
  try {
    FeatureStore(scratch / "file", 7).keep(content_hash(feature_bytes(1)), feature_bytes(2));
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("vlm.features"));
    EXPECT_THAT(error.what(), HasSubstr((scratch / "file").string()));
  }
}

}  // namespace
}  // namespace trireme::formats::feature_store_test
