// Families other than decoders train alike where cp ranks share the rows of their blocks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/harness/small_jobs.h"
#include "tests/harness/vjepa_jobs.h"

namespace trireme::train::rows_test {
namespace {

using config::Family;
using harness::Sets;
using harness::operator+;

config::Job job_of(const Sets& sets) {
  config::Job job;
  for (const char* set : {"precision.compute=fp64", "optim.eps=1e-4", "optim.warmup_steps=0",
                          "parallel.dp_shard=1", "run.global_batch=4", "data.samples=64"})
    config::apply_set(job, set);
  for (const std::string& set : sets) config::apply_set(job, set);
  return job;
}

// Of a rank that has a part of the rows, as of one that has all.
void expect_parity(const Sets& model, const std::vector<Sets>& layouts) {
  harness::expect_parity([&](const Sets& layout) { return job_of(model + layout); },
                         harness::named(layouts));
}

void expect_parity(Family family, const Sets& model, const std::vector<Sets>& layouts) {
  harness::expect_parity(
      [&](const Sets& layout) { return harness::vjepa_job(family, model + layout); },
      harness::named(layouts));
}

const Sets kTwo = {"parallel.cp=2"};
const Sets kThree = {"parallel.cp=3"};
const Sets kWithDp = {"parallel.cp=2", "parallel.dp_shard=2"};
const Sets kWithTp = {"parallel.cp=2", "parallel.tp=2"};
const Sets kWithPp = {"parallel.cp=2", "parallel.pp=2"};
const Sets kSharded = {"parallel.cp=2", "parallel.dp_shard=2", "parallel.zero=3"};
const Sets kRecomputed = {"parallel.cp=2", "recompute.policy=full"};

const Sets kTower = {"vision.image=16", "vision.patch=4", "vision.hidden=24", "vision.heads=4",
                     "vision.layers=2"};

// 16 patches, and 17 tokens with that of the class: ranks of cp 2 and 3 have unlike numbers of them.
TEST(RowsOfVit, TrainWhatOneRankTrains) {
  const Sets vit = kTower + Sets{"model.family=vit", "data.source=stripes"};
  expect_parity(vit + Sets{"vision.pooling=attention"}, {kTwo, kWithTp, kWithPp, kSharded});
  expect_parity(vit + Sets{"vision.pooling=class", "vision.positions=rotary"},
                {kTwo, kThree, kWithDp, kRecomputed});
}

TEST(RowsOfClip, TrainWhatOneRankTrains) {
  const Sets clip =
      kTower + Sets{"model.family=clip", "data.source=scenes", "model.seq_len=55",
                    "model.hidden=16",   "model.heads=4",      "contrastive.width=12"};
  expect_parity(clip + Sets{"run.micro_batch=4"}, {kTwo, kWithTp, kRecomputed});
  expect_parity(clip + Sets{"run.micro_batch=4", "contrastive.loss=siglip"},
                {kWithDp + Sets{"run.micro_batch=2"}});
}

TEST(RowsOfJepa, TrainWhatOneRankTrains) {
  expect_parity(Family::kJepa, {},
                {kTwo, kThree, kWithDp, kWithTp, kWithPp, kSharded, kRecomputed});
}

TEST(RowsOfHvjepa, TrainWhatOneRankTrains) {
  expect_parity(Family::kHvjepa, {}, {kTwo, kWithTp, kWithPp, kRecomputed});
  expect_parity(Family::kHvjepa, {"vicreg.weight=0.5", "vicreg.widths=[8, 8]", "run.micro_batch=8"},
                {kTwo, kWithDp + Sets{"run.micro_batch=4"}});
}

TEST(RowsOfProbe, TrainWhatOneRankTrains) { expect_parity(Family::kProbe, {}, {kTwo, kWithDp}); }

TEST(RowsOfJepaAc, TrainWhatOneRankTrains) {
  expect_parity(Family::kJepaAc, {}, {kTwo, kThree, kWithTp, kRecomputed});
}

TEST(RowsOfVlm, TrainWhatOneRankTrains) {
  const Sets vlm = {"model.family=vlm", "data.source=scenes", "vision.hidden=24",
                    "vision.heads=2",   "vision.layers=2",    "vision.patch=16",
                    "model.hidden=32",  "model.heads=4",      "model.kv_heads=2",
                    "model.layers=2",   "model.ffn=48",       "model.seq_len=47",
                    "model.vocab=260",  "vlm.layer=-1",       "run.micro_batch=1"};
  expect_parity(vlm + Sets{"model.qk_norm=true", "vlm.mrope=2,1,1"}, {kTwo, kWithTp, kRecomputed});
  expect_parity(vlm, {kTwo, kThree, kSharded});
  expect_parity(vlm + Sets{"lora.rank=2", "lora.also=projector"}, {kTwo});
}

// A scan sees all rows of its sequence, attention those that are here and the keys of all.
TEST(RowsOfHnet, TrainWhatOneRankTrains) {
  const Sets hnet = {"model.family=hnet",      "model.vocab=64",    "model.seq_len=24",
                     "hnet.layout=T1,[T1],T1", "hnet.hidden=16,32", "hnet.heads=2,4",
                     "hnet.ffn=24,40",         "hnet.ratio=3",      "run.micro_batch=2",
                     "optim.lr=1e-2"};
  expect_parity(hnet, {kTwo, kThree, kWithDp, kWithTp, kWithPp, kRecomputed});
  expect_parity(hnet + Sets{"hnet.layout=m1,[T1],m1", "hnet.hidden=64,64", "hnet.ffn=0,40"},
                {kTwo});
}

TEST(RowsOfArrcoc, TrainWhatOneRankTrains) {
  const Sets arrcoc = {"model.family=arrcoc", "data.source=quadrants", "vision.image=32",
                       "vision.patch=4",      "vision.hidden=16",      "vision.heads=2",
                       "vision.layers=2",     "model.hidden=32",       "model.heads=4",
                       "model.kv_heads=2",    "model.layers=2",        "model.ffn=48",
                       "model.seq_len=40",    "arrcoc.grid=2",         "arrcoc.sides=[2, 5]",
                       "arrcoc.budget=36",    "arrcoc.hidden=8",       "run.micro_batch=1"};
  expect_parity(arrcoc, {kTwo, kThree, kWithDp, kWithTp, kRecomputed});
  expect_parity(arrcoc + Sets{"lora.rank=2", "lora.also=scorers,levels", "lora.dropout=0.1"},
                {kTwo});
  expect_parity(arrcoc + Sets{"arrcoc.decoder=gpt", "model.kv_heads=4", "lora.rank=2"},
                {kTwo, kThree, kWithTp, kWithPp});
}

}  // namespace
}  // namespace trireme::train::rows_test
