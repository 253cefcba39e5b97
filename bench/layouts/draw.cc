#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "bench/layouts/pair.h"
#include "trireme/base/error.h"
#include "trireme/base/hash.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/config/synthetic.h"
#include "trireme/model/families/describe.h"
#include "trireme/model/layout.h"
#include "trireme/plan/check/validate.h"
#include "trireme/plan/passes/compile.h"

namespace trireme::layouts {
namespace {

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : state_(seed) {}
  int below(int count) {
    state_ = mix(state_, ++drawn_);
    return static_cast<int>(state_ % static_cast<std::uint64_t>(count));
  }
  bool chance(int percent) { return below(100) < percent; }
  template <typename T>
  const T& pick(const std::vector<T>& all) {
    return all[static_cast<std::size_t>(below(static_cast<int>(all.size())))];
  }

 private:
  std::uint64_t state_;
  std::uint64_t drawn_ = 0;
};

// A recipe and what makes it small.
struct Small {
  const char* recipe;
  Sets sets;
};

const Sets kClips = {"vision.image=16", "vision.patch=4",   "vision.frames=4",
                     "vision.layers=2", "vision.hidden=24", "vision.heads=2"};

const std::vector<Small>& recipes() {
  const auto with = [](Sets sets, const Sets& more) {
    sets.insert(sets.end(), more.begin(), more.end());
    return sets;
  };
  static const std::vector<Small> kAll = {
      {"gpt_tiny.yaml",
       {"data.source=words", "model.layers=4", "model.hidden=32", "model.seq_len=16"}},
      {"llama_tiny.yaml",
       {"data.source=words", "model.layers=4", "model.hidden=32", "model.seq_len=16"}},
      {"vit_tiny.yaml",
       {"vision.image=16", "vision.patch=4", "vision.layers=2", "vision.hidden=24"}},
      {"clip_tiny.yaml",
       {"vision.image=16", "vision.layers=2", "vision.hidden=24", "vision.heads=2",
        "model.hidden=24", "model.heads=2", "contrastive.width=16", "parallel.schedule=gpipe"}},
      {"vjepa_tiny.yaml", with(kClips, {"jepa.layers=2", "jepa.hidden=16", "jepa.heads=2"})},
      {"hvjepa_tiny.yaml",
       with(kClips, {"jepa.layers=2", "jepa.hidden=16", "jepa.heads=2", "chunk.hidden=16"})},
      {"ac_tiny.yaml", with(kClips, {"action.layers=2", "action.hidden=16", "action.heads=2"})},
      {"probe_tiny.yaml", kClips},
      {"hnet_tiny.yaml",
       {"model.seq_len=24", "hnet.layout=T1,[T1],T1", "hnet.hidden=16,32", "hnet.heads=2,4",
        "hnet.ffn=24,40"}},
      {"vlm_tiny.yaml",
       {"data.samples=256", "vision.hidden=24", "vision.heads=2", "vision.layers=2",
        "vision.patch=16", "model.hidden=32", "model.heads=4", "model.layers=2", "model.ffn=48",
        "model.seq_len=48", "model.vocab=260"}},
      {"arrcoc_tiny.yaml",
       {"data.samples=256", "vision.image=32", "vision.hidden=16", "vision.layers=2",
        "model.hidden=32", "model.heads=4", "model.seq_len=40", "arrcoc.sides=[2, 5]",
        "arrcoc.budget=36", "arrcoc.hidden=8", "projector.kind=linear"}},
  };
  return kAll;
}

// What both sides have beside the recipe: sizes of batches, and options that move where numbers are added.
Sets draw_model(Dice& dice, const Small& small) {
  const std::string recipe = small.recipe;
  Sets sets = small.sets;
  for (const char* set : {"run.eval_every=0", "optim.warmup_steps=0", "optim.eps=1e-4"})
    sets.emplace_back(set);
  sets.push_back(fmt::format("run.seed={}", 1 + dice.below(1000)));
  sets.push_back(fmt::format("data.seed={}", 1 + dice.below(1000)));
  sets.push_back(fmt::format("run.micro_batch={}", 1 + dice.below(2)));
  sets.push_back(fmt::format("run.global_batch={}", dice.pick(std::vector{8, 8, 16, 16, 12, 24})));
  if (recipe == "gpt_tiny.yaml" || recipe == "llama_tiny.yaml")
    sets.emplace_back(dice.chance(40) ? "model.tied=true" : "model.tied=false");
  if (recipe == "gpt_tiny.yaml" && dice.chance(50)) sets.emplace_back("model.dropout=0.1");
  if (recipe == "clip_tiny.yaml" && dice.chance(50)) sets.emplace_back("contrastive.loss=siglip");
  if (recipe == "ac_tiny.yaml" && dice.chance(40)) sets.emplace_back("action.rollout=1");
  if (recipe == "vlm_tiny.yaml" && dice.chance(25)) sets.emplace_back("vlm.balance=true");
  if (recipe == "vlm_tiny.yaml" && dice.chance(25)) sets.emplace_back("vlm.pack=true");
  if (recipe == "hvjepa_tiny.yaml")
    for (const char* set : {"parallel.schedule=gpipe"})
      sets.emplace_back(dice.chance(50) ? "vicreg.weight=0" : set);
  return sets;
}

void draw_pipeline(Dice& dice, int pp, Sets& sets) {
  const std::vector<std::string> v = {"zb_v", "v_half", "v_min", "dualpipe_v"};
  const std::vector<std::string> other = {"gpipe", "1f1b", "zb_h1", "zb_h2", "zb_auto"};
  if (pp == 1 && !dice.chance(25)) return;
  const bool looped = dice.chance(25);
  const bool chunks = looped || pp == 1 || dice.chance(40);
  sets.push_back("parallel.schedule=" + (looped   ? "interleaved"
                                         : chunks ? dice.pick(v)
                                                  : dice.pick(other)));
  if (looped) sets.push_back(fmt::format("parallel.virtual_stages={}", 2 + dice.below(2)));
}

void draw_recomputation(Dice& dice, Sets& sets) {
  const std::vector<Sets> policies = {{"recompute.policy=full"},
                                      {"recompute.policy=selective"},
                                      {"recompute.policy=full:2"},
                                      {"recompute.policy=full", "recompute.nodes=block.0"}};
  if (dice.chance(50))
    for (const std::string& set : dice.pick(policies)) sets.push_back(set);
  if (dice.chance(10)) sets.emplace_back("recompute.logits=true");
}

void draw_offload(Dice& dice, Sets& sets) {
  if (!dice.chance(30)) return;
  for (const char* piece : {"optimizer", "params", "grads", "activations"})
    if (dice.chance(40))
      sets.push_back(fmt::format("offload.{}={}", piece, dice.chance(50) ? "host" : "nvme"));
  if (!dice.chance(30)) return;
  for (std::string& set : sets)
    if (set.starts_with("offload.optimizer=")) set += ":0.5";
}

Sets draw_layout(Dice& dice) {
  static const std::vector<std::string> kAxes = {
      "dp_shard",     "dp_shard",     "dp_shard", "dp_shard", "dp_replicate",
      "dp_replicate", "dp_replicate", "pp",       "pp",       "pp",
      "pp",           "tp",           "cp"};
  static const std::vector<std::vector<int>> kFactors = {{},     {2},       {2}, {2, 2}, {2, 2},
                                                         {2, 2}, {2, 2, 2}, {3}, {2, 3}};
  std::array<int, 5> degrees = {1, 1, 1, 1, 1};
  static const std::array<std::string, 5> kNames = {"pp", "dp_replicate", "dp_shard", "cp", "tp"};
  for (int factor : dice.pick(kFactors)) {
    const auto axis = std::ranges::find(kNames, dice.pick(kAxes)) - kNames.begin();
    degrees[static_cast<std::size_t>(axis)] *= factor;
  }
  Sets sets;
  for (std::size_t axis = 0; axis < degrees.size(); ++axis)
    if (degrees[axis] > 1 || kNames[axis] == "dp_shard")
      sets.push_back(fmt::format("parallel.{}={}", kNames[axis], degrees[axis]));
  sets.push_back(fmt::format("parallel.zero={}", dice.below(4)));
  if (degrees[4] > 1 && dice.chance(40)) sets.emplace_back("parallel.sequence_parallel=false");
  if (degrees[3] > 1 && dice.chance(50)) sets.emplace_back("parallel.context=all_gather");
  draw_pipeline(dice, degrees[0], sets);
  draw_recomputation(dice, sets);
  draw_offload(dice, sets);
  return sets;
}

// What fp64 is replaced by where bits are promised.
Sets draw_precision(Dice& dice) {
  return dice.pick(std::vector<Sets>{{"precision.compute=fp32"},
                                     {"precision.compute=fp32"},
                                     {"precision.compute=bf16"},
                                     {"precision.compute=bf16", "precision.master=bf16"},
                                     {"precision.compute=bf16", "optim.states=int8"},
                                     {"precision.compute=fp64"}});
}

bool can_be(const Pair& pair, const Sets& layout) {
  try {
    plan_of(pair, layout);
    return true;
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kUsage) return false;
    throw;
  }
}

}  // namespace

int ranks_of(const config::Job& job) {
  const config::Parallel& p = job.parallel;
  return p.pp * p.dp_replicate * std::max(p.dp_shard, 1) * p.cp * p.tp;
}

Planned plan_of(const Pair& pair, const Sets& layout) {
  config::Job job = config::load_job(Path(TRIREME_SOURCE_DIR) / "recipes" / pair.recipe);
  for (const Sets* sets : {&pair.model, &layout})
    for (const std::string& set : *sets) config::apply_set(job, set);
  job = config::resolve(job, ranks_of(job), config::synthetic_source(job.data.source)->facts);
  const model::ModelSpec model = model::describe(job);
  plan::PlanSet plan = plan::compile(model.program, model::mesh_of(job), model::recipe_of(job),
                                     model::grid_of(job, model));
  plan::check_activations_leave(plan);
  plan::validate(plan);
  return {.job = std::move(job), .plan = std::move(plan)};
}

Pair draw(std::uint64_t seed) {
  Dice dice(seed);
  while (true) {
    const Small& small = dice.pick(recipes());
    Pair pair{.recipe = small.recipe, .model = draw_model(dice, small), .one = {}, .other = {}};
    pair.model.emplace_back("precision.compute=fp64");
    pair.one = dice.chance(35) ? Sets{"parallel.dp_shard=1"} : draw_layout(dice);
    pair.other = draw_layout(dice);
    if (pair.one == pair.other || !can_be(pair, pair.one) || !can_be(pair, pair.other)) continue;
    if (dice.chance(30)) pair.before = 1 + dice.below(pair.steps - 1);
    if (promise_of(plan_of(pair, pair.one), plan_of(pair, pair.other)).bits) {
      Pair typed = pair;
      typed.model.pop_back();
      for (const std::string& set : draw_precision(dice)) typed.model.push_back(set);
      if (can_be(typed, typed.one) && can_be(typed, typed.other)) return typed;
    }
    return pair;
  }
}

}  // namespace trireme::layouts
