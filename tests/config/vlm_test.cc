// Jobs of family vlm: what is derived, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/config/error_of.h"
#include "trireme/config/fields/fields.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/config/sections/mrope.h"
#include "trireme/config/weights.h"
#include "trireme/families/vlm/keys_checks.h"

namespace trireme::config::vlm_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Job vlm_job(const std::vector<std::string>& sets) {
  Job job;
  for (const char* set : {"model.family=vlm", "data.source=scenes"}) apply_set(job, set);
  for (const std::string& set : sets) apply_set(job, set);
  return job;
}

Job vlm_resolved(const std::vector<std::string>& sets) { return resolve(vlm_job(sets), 1, {}); }

std::string vlm_refusal(const std::vector<std::string>& sets) {
  return usage_error_of([&] { vlm_resolved(sets); });
}

TEST(Vlm, DeepstackNamesBlocksOfTheTowerThatRun) {
  EXPECT_THAT(deepstack_layers(vlm_resolved({})), testing::IsEmpty());
  EXPECT_THAT(deepstack_layers(vlm_resolved({"vlm.deepstack=0,2"})), ElementsAre(0, 2));
  for (const char* wrong : {"3", "-1", "1,1", "2,0", "0,", "x", "0 1"})
    EXPECT_THAT(vlm_refusal({std::string("vlm.deepstack=") + wrong}),
                HasSubstr("needs ascending blocks from 0 to 2 of the tower (vlm.layer=-2)"));
  EXPECT_THAT(vlm_refusal({"model.layers=1", "vlm.deepstack=0,1"}), HasSubstr("name fewer"));
}

TEST(Vlm, AnImageIsPaddedWhereItIsOneTile) {
  EXPECT_EQ(vlm_resolved({"vlm.fit=pad", "vlm.max_tiles=0"}).vlm.fit, VlmFit::kPad);
  EXPECT_THAT(vlm_refusal({"vlm.fit=pad"}),
              HasSubstr("vlm.fit=pad with vlm.max_tiles=4: an image is padded"));
  EXPECT_THAT(vlm_refusal({"vlm.fit=wide", "vlm.max_tiles=0"}),
              HasSubstr("vlm.fit=wide with vlm.max_tiles=0: without tiles"));
}

TEST(Vlm, TheTowerIsReadAtALayerFromEitherEnd) {
  EXPECT_EQ(blocks_read(vlm_resolved({})), 3);
  EXPECT_FALSE(reads_last(vlm_resolved({})));
  EXPECT_TRUE(reads_last(vlm_resolved({"vlm.layer=-1"})));
  EXPECT_EQ(blocks_read(vlm_resolved({"vlm.layer=0"})), 1);
  EXPECT_THAT(vlm_refusal({"vlm.layer=4"}), HasSubstr("vlm.layer=4"));
  EXPECT_THAT(vlm_refusal({"vlm.layer=-5"}), HasSubstr("needs -4 to 3"));
}

TEST(Vlm, QueriesTakeThePlaceOfATilesTokens) {
  EXPECT_EQ(tile_tokens(vlm_resolved({})), 16);
  EXPECT_EQ(tile_tokens(vlm_resolved({"projector.kind=perceiver", "projector.queries=5"})), 5);
  EXPECT_EQ(vlm_resolved({"projector.kind=qformer"}).projector.hidden, 128);
  EXPECT_EQ(vlm_resolved({}).model.vocab, kVlmVocab);
}

// Bytes and two more ids, a tokenizer's, or those that the job names.
TEST(Vlm, TokensAndVocabularyAreThoseOfTheTokenizer) {
  using Tokens = std::array<std::int64_t, 2>;
  EXPECT_EQ(vlm_resolved({}).vlm.tokens, (Tokens{kImageToken, kEndToken}));
  const auto resolved = [](const std::vector<std::string>& sets, const DatasetFacts& facts) {
    Job job;
    for (const char* set : {"model.family=vlm", "data.source=scenes", "data.tokenizer=t.json"})
      apply_set(job, set);
    for (const std::string& set : sets) apply_set(job, set);
    return resolve(job, 1, facts);
  };
  const DatasetFacts facts{.vocab = 32002, .tokens = {32000, 2}};
  EXPECT_EQ(resolved({}, facts).vlm.tokens, (Tokens{32000, 2}));
  EXPECT_EQ(resolved({}, facts).model.vocab, 32002);
  EXPECT_EQ(resolved({"model.vocab=32064"}, facts).model.vocab, 32064);
  EXPECT_EQ(resolved({"vlm.tokens=[32001, -1]"}, facts).vlm.tokens, (Tokens{32001, 2}));
  EXPECT_THAT(
      usage_error_of([&] { resolved({"model.vocab=32001"}, facts); }),
      HasSubstr("model.vocab=32001 is smaller than the 32002 ids of data.tokenizer=t.json"));
  EXPECT_THAT(vlm_refusal({"model.vocab=300", "vlm.tokens=[300, 2]"}),
              HasSubstr("model.vocab=300 is less than 301 for vlm.tokens=[300, 2]"));
}

TEST(Vlm, KeptFeaturesNeedATowerThatAdaptersFreeze) {
  EXPECT_EQ(vlm_resolved({"vlm.features=x", "lora.rank=2"}).lora.rank, 2);
  EXPECT_THAT(vlm_refusal({"vlm.features=x", "lora.rank=2", "lora.also=vision.block.0"}),
              HasSubstr("vision.block.0 is trainable; leave it out of lora.also"));
}

TEST(Vlm, AMergerMakesATokenOfTwoByTwo) {
  const Job job = vlm_resolved({"projector.kind=merger", "vlm.layer=-1"});
  EXPECT_EQ(tile_side(job), 2);
  EXPECT_EQ(tile_tokens(job), 4);
  EXPECT_FALSE(reads_last(job));  // its norm is in the place of the tower's
  EXPECT_FALSE(ends_rows(job));
  EXPECT_THAT(
      vlm_refusal({"projector.kind=merger", "vision.image=24"}),
      HasSubstr("is not divisible by 2 x vision.patch=8 = 16, as projector.kind=merger joins "
                "2 x 2 tokens; nearest that work: vision.image=16 or vision.image=32"));
  EXPECT_THAT(vlm_refusal({"projector.kind=merger", "vision.pooling=class"}),
              HasSubstr("vision.pooling=mean"));
  EXPECT_THAT(vlm_refusal({"projector.kind=merger", "projector.queries=5"}),
              HasSubstr("leave it out, or set projector.kind"));
  EXPECT_THAT(usage_error_of([] {
                Job regions;
                for (const char* set :
                     {"model.family=arrcoc", "data.source=quadrants", "projector.kind=merger"})
                  apply_set(regions, set);
                resolve(regions, 1, {});
              }),
              HasSubstr("projector.kind"));
}

TEST(Vlm, LearnedPositionsAreResampledWhereAGridIsGiven) {
  const Job job = vlm_resolved({"vision.positions=learned_rotary", "vision.position_grid=7"});
  EXPECT_EQ(job.vision.position_grid, 7);
  EXPECT_EQ(vlm_resolved({"vision.position_grid=3"}).vision.position_grid, 3);
  EXPECT_THAT(
      vlm_refusal({"vision.positions=rotary", "vision.position_grid=7"}),
      HasSubstr(
          "vision.position_grid=7 with vision.positions=rotary: rotary positions have no table"));
  EXPECT_THAT(vlm_refusal({"vision.pooling=class", "vision.position_grid=7"}),
              HasSubstr("vision.position_grid=0 or vision.pooling=mean"));
  EXPECT_THAT(
      vlm_refusal({"vision.positions=learned_rotary", "vision.hidden=120", "vision.heads=4"}),
      HasSubstr("need a multiple of 4"));
}

TEST(Vlm, AnImageFillsOneTubelet) {
  EXPECT_EQ(tile_tokens(vlm_resolved({"vision.frames=2", "vision.tubelet=2"})), 16);
  EXPECT_THAT(vlm_refusal({"vision.frames=4", "vision.tubelet=2"}),
              HasSubstr("set vision.frames=2"));
}

TEST(Vlm, ARunFromBeforeItsTokensWereAKeyGoesOn) {
  const Job now = vlm_resolved({});
  Job before = now;
  before.vlm.tokens = {-1, -1};
  EXPECT_NO_THROW(check_resumable(before, now));
  EXPECT_THAT(other_meaning(before, now, {}), testing::IsEmpty());
  Job other = now;
  other.vlm.tokens = {300, 301};
  EXPECT_THAT(usage_error_of([&] { check_resumable(before, other); }), HasSubstr("vlm.tokens"));
}

TEST(Vlm, WhatDoesNotFitIsRefused) {
  EXPECT_THAT(vlm_refusal({"projector.queries=5"}), HasSubstr("projector.kind"));
  EXPECT_THAT(vlm_refusal({"projector.kind=perceiver", "projector.hidden=64"}),
              HasSubstr("vision.hidden=128"));
  EXPECT_THAT(vlm_refusal({"projector.kind=qformer", "projector.heads=5"}),
              HasSubstr("projector.heads=5"));
  EXPECT_THAT(vlm_refusal({"vision.pooling=attention"}), HasSubstr("vision.pooling"));
  EXPECT_THAT(vlm_refusal({"data.source=text"}), HasSubstr("data.source=scenes"));
  EXPECT_THAT(vlm_refusal({"vision.frames=2"}), HasSubstr("set vision.frames=1"));
  EXPECT_THAT(vlm_refusal({"data.documents=true"}), HasSubstr("data.documents"));
  EXPECT_THAT(vlm_refusal({"model.vocab=256"}), HasSubstr("258"));
  EXPECT_THAT(usage_error_of([] {
                resolve(vlm_job({"parallel.cp=2", "parallel.context=ulysses"}), 2, {});
              }),
              HasSubstr("set parallel.context=all_gather"));
}

TEST(Vlm, ADecoderThatAttendsToImagesHasNoneOfTheirTokens) {
  const auto crossing = [](std::vector<std::string> sets) {
    sets.insert(sets.begin(), {"vlm.cross=[1, 8]", "vlm.max_tiles=0"});
    return sets;
  };
  const Job job = vlm_resolved(crossing({"model.layers=5", "vlm.cross=[2, 8]"}));
  std::vector<std::int64_t> before;
  for (std::int64_t block = 0; block < 5; ++block)
    if (crosses_before(job, block)) before.push_back(block);
  EXPECT_THAT(before, ElementsAre(1, 3));
  EXPECT_FALSE(ends_rows(job));
  EXPECT_EQ(projected_width(job), job.model.hidden);
  EXPECT_EQ(projected_width(vlm_resolved(crossing({"projector.kind=perceiver"}))), 128);
  EXPECT_EQ(projected_width(vlm_resolved({"projector.kind=perceiver"})), 64);
  EXPECT_THAT(vlm_refusal({"vlm.cross=[1, 8]"}), HasSubstr("set vlm.max_tiles=0"));
  EXPECT_THAT(vlm_refusal(crossing({"vlm.cross=[1, 0]"})), HasSubstr("needs 1 to 1024 heads"));
  EXPECT_THAT(vlm_refusal({"vlm.cross=[1.5, 8]"}), HasSubstr("1.5 is not whole; needs a list of "
                                                             "two whole numbers from 0"));
  EXPECT_THAT(vlm_refusal(crossing({"vlm.pack=true"})), HasSubstr("set vlm.pack=false"));
  EXPECT_THAT(vlm_refusal(crossing({"vlm.mrope=4,2,2"})),
              HasSubstr("vlm.mrope=4,2,2 with vlm.cross=[1, 8]: it is for"));
  EXPECT_THAT(vlm_refusal(crossing({"vlm.deepstack=0"})),
              HasSubstr("vlm.deepstack=0 with vlm.cross=[1, 8]: it is for"));
  EXPECT_THAT(vlm_refusal(crossing({"vlm.cross=[9, 8]"})), HasSubstr("lower it to 2 or less"));
  EXPECT_THAT(usage_error_of([&] {
                resolve(vlm_job(crossing({"vlm.cross=[1, 2]", "parallel.tp=4"})), 4, {});
              }),
              HasSubstr("the heads of vlm.cross=[1, 2]"));
  EXPECT_THAT(vlm_refusal({"vlm.tower=jepa", "data.source=squares", "vlm.cross=[1, 8]"}),
              HasSubstr("set only tower and mrope"));
}

TEST(Vlm, FeaturesAreKeptOfAFrozenTowerAlone) {
  EXPECT_THAT(vlm_refusal({"vlm.features=somewhere"}), HasSubstr("model.frozen=vision.*"));
  EXPECT_THAT(vlm_refusal({"vlm.features=somewhere", "model.frozen=vision.embed,vision.block.0"}),
              HasSubstr("vision.block.1 is trainable"));
  EXPECT_EQ(vlm_resolved({"vlm.features=somewhere", "model.frozen=vision.*"}).vlm.features,
            "somewhere");
  // Blocks behind the one that is read are no part of the model.
  EXPECT_EQ(
      vlm_resolved({"vlm.features=x", "vlm.layer=0", "model.frozen=vision.embed,vision.block.0"})
          .vlm.features,
      "x");
}

TEST(Vlm, RowsAndTheirPlacesAreOfFamilyVlmAlone) {
  EXPECT_TRUE(vlm_resolved({"vlm.pack=true"}).vlm.pack);
  for (const char* set : {"vlm.pack=true", "vlm.balance=true", "vlm.features=x"})
    EXPECT_THAT(usage_error_of([&] {
                  Job job;
                  apply_set(job, "model.family=gpt");
                  apply_set(job, set);
                  resolve(job, 1, {.vocab = 256});
                }),
                HasSubstr("does not use"))
        << set;
  Job saved = vlm_resolved({}), now = vlm_resolved({"vlm.balance=true"});
  check_resumable(saved, now);
  now.vlm.pack = true;
  EXPECT_THAT(usage_error_of([&] { check_resumable(saved, now); }), HasSubstr("vlm.pack"));
}

TEST(Mrope, SectionsShareOutAHeadsFrequencies) {
  EXPECT_THAT(axes(parse_mrope("2,1,1")), ElementsAre(0, 0, 1, 2));
  EXPECT_THAT(axes(parse_mrope("3,2,1 interleaved")), ElementsAre(0, 1, 2, 0, 1, 0));
  // Qwen3-VL: 24 of time, 20 of row, 20 of column; behind the 60th all of time.
  std::array<int, 3> counted{};
  const std::vector<std::int64_t> qwen = axes(parse_mrope("24,20,20 interleaved"));
  for (const std::int64_t axis : qwen) ++counted[axis];
  EXPECT_THAT(counted, ElementsAre(24, 20, 20));
  EXPECT_THAT(std::vector(qwen.end() - 4, qwen.end()), ElementsAre(0, 0, 0, 0));
  EXPECT_EQ(vlm_resolved({"vlm.mrope=4,2,2"}).vlm.mrope, "4,2,2");
  EXPECT_THAT(vlm_refusal({"vlm.mrope=4,2,3"}), HasSubstr("assigns 9 frequencies, but"));
  for (const char* broken : {"4,4", "4,2,2,", "4,2,x", "-4,10,2", "4,2,2 mixed"})
    EXPECT_THAT(vlm_refusal({std::string("vlm.mrope=") + broken}),
                HasSubstr("needs the frequencies"));
}

}  // namespace
}  // namespace trireme::config::vlm_test
