// Families on a frozen tower of clips: which keys go together.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/config/error_of.h"
#include "tests/harness/vjepa_jobs.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/families/vlm/keys_checks.h"

namespace trireme::config::frozen_towers_test {
namespace {

using testing::HasSubstr;

Job on_chunks(Family family, const std::vector<std::string>& sets = {}) {
  return resolve(harness::chunked_job(family, sets), 1, {.classes = 8});
}

std::string chunks_refusal(Family family, const std::vector<std::string>& sets) {
  return usage_error_of([&] { on_chunks(family, sets); });
}

std::string clips_refusal(const std::vector<std::string>& sets) {
  return usage_error_of([&] { resolve(harness::vjepa_job(Family::kVlm, sets), 1, {}); });
}

TEST(FrozenTowers, MayMakeChunks) {
  for (const Family family : {Family::kProbe, Family::kJepaAc, Family::kVlm}) {
    EXPECT_EQ(on_chunks(family).chunk.hidden, 16);
    EXPECT_THAT(chunks_refusal(family, {"vision.chunked=false"}),
                HasSubstr("set vision.chunked=true"));
    EXPECT_THAT(chunks_refusal(family, {"chunk.heads=8"}), HasSubstr("chunk.heads=8"));
    EXPECT_THAT(chunks_refusal(family, {"chunk.mode=fixed", "chunk.ratio=3"}),
                HasSubstr("as chunk.mode=fixed needs"));
    EXPECT_THAT(chunks_refusal(family, {"jepa.momentum=0.9"}), HasSubstr("does not use"));
    EXPECT_THAT(chunks_refusal(family, {"vision.positions=learned"}),
                HasSubstr("set vision.positions=rotary"));
  }
  for (const char* family : {"jepa", "hvjepa", "vit", "clip"})
    EXPECT_THAT(chunks_refusal(Family::kJepa, {std::string("model.family=") + family}),
                HasSubstr("vision.chunked=true"));
}

TEST(FrozenTowers, ThatLanguageIsAlignedToReadClips) {
  EXPECT_EQ(tile_tokens(on_chunks(Family::kVlm)), 32);
  EXPECT_FALSE(ends_rows(on_chunks(Family::kVlm)));
  EXPECT_FALSE(reads_last(on_chunks(Family::kVlm, {})));
  EXPECT_THAT(clips_refusal({"data.source=scenes"}), HasSubstr("set data.source=squares"));
  EXPECT_THAT(clips_refusal({"vlm.max_tiles=2"}), HasSubstr("clips have no tiles"));
  EXPECT_THAT(clips_refusal({"vlm.layer=-1"}), HasSubstr("clips have no tiles"));
  EXPECT_THAT(clips_refusal({"vision.pooling=class"}), HasSubstr("vision.pooling"));
  EXPECT_THAT(clips_refusal({"vision.pre_norm=true"}), HasSubstr("vision.pre_norm"));
  EXPECT_THAT(clips_refusal({"vlm.tower=vit", "data.source=scenes", "vision.positions=learned"}),
              HasSubstr("vlm.tower=vit sees images"));
}

}  // namespace
}  // namespace trireme::config::frozen_towers_test
