#include "bench/layouts/pair.h"

namespace trireme::layouts {
namespace {

Sets with_common(Sets sets) {
  for (const char* set : {"run.eval_every=0", "optim.warmup_steps=0", "optim.eps=1e-4",
                          "precision.compute=fp64", "run.micro_batch=1"})
    sets.emplace_back(set);
  return sets;
}

const Sets kOneRank = {"parallel.dp_shard=1"};

}  // namespace

const std::vector<Exception>& exceptions() {
  const auto small = [](Sets sets, const Sets& more) {
    sets.insert(sets.end(), more.begin(), more.end());
    return with_common(std::move(sets));
  };
  const Sets gpt = {"data.source=words", "model.layers=4", "model.hidden=32", "model.seq_len=16"};
  const Sets clips = {"vision.image=16",  "vision.patch=4", "vision.frames=4",   "vision.layers=2",
                      "vision.hidden=24", "vision.heads=2", "run.global_batch=8"};
  const Sets whole = {"parallel.schedule=gpipe", "run.global_batch=8"};
  const Sets vlm = {"data.samples=256",  "vision.hidden=24", "vision.heads=2",  "vision.layers=2",
                    "vision.patch=16",   "model.hidden=32",  "model.heads=4",   "model.layers=2",
                    "model.ffn=48",      "model.seq_len=48", "model.vocab=260", "vlm.balance=true",
                    "run.global_batch=8"};
  const Sets two_stages = {"parallel.pp=2", "parallel.dp_shard=1"}, two = {"parallel.dp_shard=2"};
  static const std::vector<Exception> kAll = {
      {"tensor and context parallelism",
       {.recipe = "gpt_tiny.yaml",
        .model = small({"model.tied=false", "run.global_batch=8"}, gpt),
        .one = kOneRank,
        .other = {"parallel.dp_shard=1", "parallel.tp=2"}}},
      {"tied weights in several chunks",
       {.recipe = "gpt_tiny.yaml",
        .model = small({"model.tied=true", "run.global_batch=8"}, gpt),
        .one = kOneRank,
        .other = two_stages}},
      {"tied weights in several chunks",
       {.recipe = "ac_tiny.yaml",
        .model = small({"action.layers=2", "action.hidden=16", "action.heads=2"}, clips),
        .one = kOneRank,
        .other = {"parallel.pp=2", "parallel.dp_shard=1", "parallel.stages=8,5"}}},
      {"blocks that are no power of two",
       {.recipe = "gpt_tiny.yaml",
        .model = small({"model.tied=false", "run.global_batch=12"}, gpt),
        .one = kOneRank,
        .other = {"parallel.dp_shard=2", "parallel.zero=1"}}},
      {"losses over the global batch",
       {.recipe = "clip_tiny.yaml",
        .model = small({"vision.image=16", "vision.layers=2", "vision.hidden=24", "vision.heads=2",
                        "model.hidden=24", "model.heads=2", "contrastive.width=16"},
                       whole),
        .one = kOneRank,
        .other = two}},
      {"vlm.balance",
       {.recipe = "vlm_tiny.yaml", .model = with_common(vlm), .one = kOneRank, .other = two}},
      {"vlm.balance",
       {.recipe = "vlm_tiny.yaml",
        .model = with_common(vlm),
        .one = {"parallel.dp_shard=2", "parallel.zero=1"},
        .other = {"parallel.dp_shard=2", "parallel.zero=2"}}},
  };
  return kAll;
}

}  // namespace trireme::layouts
