// Checkpoints cut anew as bytes: every layout to every other and back, whatever divides or does not.
#include "trireme/checkpoint/convert/reshard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "tests/checkpoint/convert/seeds.h"
#include "tests/formats/scratch.h"
#include "trireme/base/error.h"
#include "trireme/base/hash.h"
#include "trireme/checkpoint/convert/compare.h"
#include "trireme/checkpoint/convert/described.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/formats/checkpoint_draft.h"

namespace trireme::convert::reshard_test {
namespace {

using formats::Scratch;
using testing::HasSubstr;
std::map<std::string, std::uint64_t> hashes(const Path& checkpoint) {
  std::map<std::string, std::uint64_t> hashes;
  for (const auto& file : formats::verify_checkpoint(checkpoint).files)
    hashes[file.name] = file.hash;
  return hashes;
}

const std::vector<Layout> kLayouts = {
    {},
    {"parallel.tp=2"},
    {"parallel.tp=3"},
    {"parallel.tp=4", "parallel.sequence_parallel=false"},
    {"parallel.pp=2"},
    {"parallel.dp_shard=2", "parallel.zero=1"},
    {"parallel.dp_shard=4", "parallel.zero=3"},
    {"parallel.dp_replicate=2", "parallel.dp_shard=1"},
    {"parallel.dp_replicate=2", "parallel.dp_shard=2", "parallel.zero=2"},
    {"parallel.cp=2", "parallel.dp_shard=2", "parallel.zero=3"},
    {"parallel.tp=2", "parallel.pp=2", "parallel.dp_shard=2", "parallel.zero=3"},
    {"parallel.tp=3", "parallel.cp=2", "parallel.zero=1"},
    {"parallel.pp=2", "parallel.dp_shard=3", "parallel.zero=1", "run.global_batch=12"}};

class Reshard : public testing::TestWithParam<std::int64_t> {
 protected:
  static std::vector<Layout> layouts() {
    // A key that is fixed for a run: all have it, or none.
    std::vector<Layout> all = kLayouts;
    for (Layout& layout : all) {
      std::erase(layout, "run.global_batch=12");
      layout.push_back("run.global_batch=12");
    }
    return all;
  }
};

// One rank's checkpoint to each layout and back is the same files; from each layout to its successor as well.
TEST_P(Reshard, ThereAndBackIsTheSameToTheBit) {
  for (const config::Family family : {config::Family::kGpt, config::Family::kLlama}) {
    const Scratch scratch;
    const std::vector<Layout> all = layouts();
    const Target one = target(family, GetParam(), all[0]);
    write_seed(one, scratch / "seed");
    const auto seed = hashes(scratch / "seed/step-3");
    Path before = scratch / "seed/step-3";
    for (std::size_t i = 0; i < all.size(); ++i) {
      SCOPED_TRACE(testing::PrintToString(all[i]));
      const Target to = target(family, GetParam(), all[i]);
      const Path direct =
          reshard(scratch / "seed/step-3", to, scratch / ("direct" + std::to_string(i)));
      const Path chained = reshard(before, to, scratch / ("chained" + std::to_string(i)));
      EXPECT_EQ(hashes(direct), hashes(chained)) << "whatever it was cut from";
      const Path back = reshard(direct, one, scratch / ("back" + std::to_string(i)));
      EXPECT_EQ(hashes(back), seed);
      EXPECT_EQ(hashes(direct) == seed, to.plan.mesh.world() == 1) << "it was cut";
      before = chained;
      const formats::Manifest manifest = formats::read_manifest(chained);
      EXPECT_EQ(manifest.world, to.plan.mesh.world());
      EXPECT_EQ(manifest.consumed_samples, 24);
      EXPECT_EQ(manifest.eval_loss, 2.5);
      EXPECT_EQ(manifest.job, config::print_yaml(to.job));
      const Comparison same = compare(StateReader(scratch / "seed/step-3", one.model.units),
                                      StateReader(chained, one.model.units), one.model.units);
      EXPECT_FALSE(same.first);
      EXPECT_TRUE(same.only_a.empty() && same.only_b.empty());
      EXPECT_EQ(same.elements, 3 * one.model.parameters());
      for (const Path& done : {direct, back}) std::filesystem::remove_all(done);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Vocabularies, Reshard, testing::Values(128, 17, 127, 31123));

TEST(ReshardRefuses, OtherModelsAndWhatIsThere) {
  const Scratch scratch;
  const Target one = target(config::Family::kGpt, 17, {});
  write_seed(one, scratch / "seed");
  const auto refused = [&](const Target& to, const std::string& root, ErrorKind kind) {
    return formats::refusal([&] { reshard(scratch / "seed/step-3", to, scratch / root); }, kind);
  };
  EXPECT_THAT(refused(target(config::Family::kGpt, 18, {}), "a", ErrorKind::kData),
              HasSubstr("is not the model's unit embed"));
  EXPECT_THAT(refused(target(config::Family::kLlama, 17, {}), "a", ErrorKind::kData),
              HasSubstr("is not the model's unit embed"));
  EXPECT_THAT(
      refused(target(config::Family::kGpt, 17, {"run.global_batch=16"}), "a", ErrorKind::kUsage),
      HasSubstr("run.global_batch was 8, is 16"));
  EXPECT_THAT(refused(one, "seed", ErrorKind::kUsage), HasSubstr("step-3 is there already"));
}

// The first element in the order of the model, the largest in ulps, and how many.
TEST(Compare, FindsWhereCheckpointsPart) {
  const Scratch scratch;
  const Target one = target(config::Family::kGpt, 17, {});
  write_seed(one, scratch / "a");
  const Target two = target(config::Family::kGpt, 17, {"parallel.tp=2"});
  const Path b = reshard(scratch / "a/step-3", two, scratch / "b");
  // One element of a moment of the second block, and one of the head, in a copy.
  StateReader reader(b, one.model.units);
  const Path c = scratch / "c";
  std::filesystem::create_directories(c);
  formats::CheckpointDraft draft(os::real_file_system(), c, 3);
  formats::Manifest manifest = reader.manifest();
  for (formats::ManifestFile& file : manifest.files) {
    const formats::SafetensorsFile stored(b / file.name);
    std::vector<formats::TensorInfo> infos;
    for (const formats::Tensor& tensor : stored.tensors())
      infos.push_back({tensor.name, tensor.dtype, tensor.shape});
    std::vector<std::byte> bytes;
    file = formats::write_shard(
        os::real_file_system(), formats::CheckpointDraft::directory(c, 3), file.name, 3, infos,
        [&](std::size_t index) {
          const formats::Tensor& tensor = stored.tensors()[index];
          bytes.assign(tensor.bytes.begin(), tensor.bytes.end());
          if (tensor.name == "block.1.exp_avg" && file.name == "rank-00001.safetensors")
            bytes[4 * 100] ^= std::byte{1};  // an ulp of what this rank owns
          if (tensor.name == "head.param" && file.name == "rank-00000.safetensors")
            bytes[4 * 5 + 1] ^= std::byte{1};  // 256
          return std::span<const std::byte>(bytes);
        });
  }
  draft.commit(manifest);
  const Comparison found =
      compare(reader, StateReader(c / "step-3", one.model.units), one.model.units);
  ASSERT_TRUE(found.first);
  EXPECT_EQ(found.first->kind, "exp_avg");
  EXPECT_THAT(found.first->parameter, HasSubstr("transformer.h.1."));
  EXPECT_EQ(found.first->ulps, 1u);
  EXPECT_EQ(found.largest->parameter, "transformer.ln_f.weight");
  EXPECT_EQ(found.largest->element, 5);
  EXPECT_EQ(found.largest->ulps, 256u);
  EXPECT_EQ(found.tensors_that_differ, 2);
  EXPECT_EQ(found.elements_that_differ, 2);
}

}  // namespace
}  // namespace trireme::convert::reshard_test
