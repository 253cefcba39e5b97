// Every rule has a job that breaks it before any other, in one line. A rule that families share has one job.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/config/error_of.h"
#include "trireme/config/rules/rule.h"

namespace trireme::config::rules_test {
namespace {

using ::testing::ContainsRegex;

const DatasetFacts kData{.vocab = 256, .classes = 4};

struct Breaking {
  std::vector<std::string> sets;
  int world = 1;
  DatasetFacts data = kData;
};

std::vector<std::string> preferences(std::vector<std::string> more) {
  more.insert(more.end(), {"data.source=preferences", "data.path=x.jsonl"});
  return more;
}
// A job of a family without `more`, each in as many keys as it needs.
std::vector<std::string> of(std::vector<std::string> family, std::vector<std::string> more) {
  family.insert(family.end(), more.begin(), more.end());
  family.front() = "model.family=" + family.front();
  return family;
}
std::vector<std::string> llama(std::vector<std::string> more) { return of({"llama"}, more); }
std::vector<std::string> vit(std::vector<std::string> more) {
  return of({"vit", "data.source=stripes"}, more);
}
std::vector<std::string> jepa(std::vector<std::string> more) {
  return of({"jepa", "data.source=squares", "vision.positions=rotary"}, more);
}
std::vector<std::string> hvjepa(std::vector<std::string> more) {
  return of({"hvjepa", "data.source=squares", "vision.positions=rotary"}, more);
}
std::vector<std::string> action(std::vector<std::string> more) {
  return of({"jepa_ac", "data.source=arm", "vision.positions=rotary"}, more);
}
std::vector<std::string> probe(std::vector<std::string> more) {
  return of({"probe", "data.source=squares", "vision.positions=rotary"}, more);
}
std::vector<std::string> probe_of_files(std::vector<std::string> more) {
  more.insert(more.end(), {"data.source=clips", "data.path=x"});
  return probe(more);
}
std::vector<std::string> vlm(std::vector<std::string> more) {
  return of({"vlm", "data.source=scenes"}, more);
}
std::vector<std::string> crossing(std::vector<std::string> more) {
  more.insert(more.begin(), {"vlm.cross=[1, 8]", "vlm.max_tiles=0"});
  return vlm(more);
}
std::vector<std::string> of_clips(std::vector<std::string> more) {
  return of({"vlm", "vlm.tower=jepa", "data.source=squares", "vision.positions=rotary"}, more);
}
std::vector<std::string> arrcoc(std::vector<std::string> more) {
  return of(
      {"arrcoc", "data.source=quadrants", "arrcoc.grid=2", "vision.image=64", "model.seq_len=2305"},
      more);
}
std::vector<std::string> arrcoc_of_files(std::vector<std::string> more) {
  more.insert(more.end(), {"data.source=pairs", "data.path=x"});
  return arrcoc(more);
}

const std::map<std::string_view, Breaking> kBreaking = {
    {"family-keys", {{"jepa.layers=3"}}},
    {"chat-source", {{"data.chat=llama3"}}},
    {"preference-source", {{"preference.beta=1"}}},
    {"chat-family", {{"model.family=hnet", "data.source=chat"}}},
    {"chat-path", {{"data.source=chat"}}},
    {"text-source", {{"data.source=stripes"}}},
    {"made-text", {{"data.source=words", "data.path=x"}}},
    {"chat", {{"data.source=chat", "data.path=x.jsonl", "data.chat=llama3 slang"}}},
    {"vocab", {{}, 1, {}}},
    {"data-vocab", {{"model.vocab=100"}}},
    {"heads", {{"model.hidden=30"}}},
    {"kv-heads", {llama({"model.kv_heads=3"})}},
    {"head-dim", {llama({"model.head_dim=15"})}},
    {"head-width", {llama({"model.hidden=12"})}},
    {"dropout", {llama({"model.dropout=0.1"})}},
    {"one-kv-head", {{"model.kv_heads=2"}}},
    {"attention-layers", {llama({"model.attention_layers=slide"})}},
    {"rope-scaling", {llama({"model.rope_scaling=stretched"})}},
    {"plain-blocks", {{"model.qk_norm=true"}}},
    {"no-rotary", {{"model.rope_theta=500000"}}},
    {"whole-qk-norm", {llama({"llama.whole_qk_norm=true"})}},
    {"whole-gains",
     {llama({"llama.whole_qk_norm=true", "model.qk_norm=true", "llama.gains_from_one=true"})}},
    {"sliding-base", {llama({"llama.sliding_theta=1"})}},
    {"sliding-layers", {llama({"llama.sliding_theta=10000"})}},
    {"partial-rotation", {llama({"llama.rotary_fraction=0.45"})}},
    {"rotated-channels", {of({"neox"}, {"neox.rotary_fraction=0.2"})}},
    {"stages", {of({"hnet"}, {"hnet.layout=T2"})}},
    {"source", {{"model.family=vit"}}},
    {"files-path", {vit({"data.source=images"})}},
    {"made-path", {vit({"data.path=x"})}},
    {"bytes", {vit({"data.tokenizer=characters"})}},
    {"documents", {vit({"data.documents=true"})}},
    {"logits", {vit({"recompute.logits=true"})}},
    {"image", {vit({"vision.image=30"})}},
    {"frames", {vit({"vision.frames=3", "vision.tubelet=2"})}},
    {"tower-heads", {vit({"vision.heads=5"})}},
    {"turned-plane", {vit({"vision.positions=learned_rotary", "vision.hidden=120"})}},
    {"turned-clip", {vit({"vision.positions=rotary", "vision.heads=32"})}},
    {"grid-table", {vit({"vision.positions=rotary", "vision.position_grid=7"})}},
    {"grid-time", {vit({"vision.positions=learned_rotary", "vision.frames=2"})}},
    {"grid-class", {vit({"vision.position_grid=7", "vision.pooling=class"})}},
    {"classes", {vit({}), 1, {}}},
    {"data-classes", {vit({"vision.classes=3"})}},
    {"captions", {of({"clip", "data.source=scenes"}, {"model.seq_len=53"})}},
    {"rotary-tower", {jepa({"vision.positions=learned"})}},
    {"predictor-heads", {jepa({"jepa.heads=100"})}},
    {"context", {jepa({"vision.image=8"})}},
    {"masks", {jepa({"jepa.masks=8x1,2x0.7"})}},
    {"chunk-heads", {hvjepa({"chunk.heads=7"})}},
    {"chunk-rows", {hvjepa({"chunk.mode=fixed", "chunk.ratio=3"})}},
    {"vicreg-batch", {hvjepa({"vicreg.weight=1", "run.global_batch=1"})}},
    {"chunks-off", {probe({"chunk.heads=8"})}},
    {"action-heads", {action({"vision.frames=4", "action.heads=1000"})}},
    {"action-frames", {action({})}},
    {"rollout", {action({"vision.frames=2"})}},
    {"tp-action-heads", {action({"vision.frames=4", "parallel.tp=32"}), 32}},
    {"protocol", {probe({"probe.augment=4"})}},
    {"segments", {probe_of_files({"probe.clips=[2, 1]", "vision.chunked=true"})}},
    {"views", {probe_of_files({"probe.clips=[1, 3]"})}},
    {"probe-heads", {probe({"probe.heads=5"})}},
    {"turned-probe", {probe({"vision.chunked=true", "probe.heads=32"})}},
    {"probe-decay", {probe({"probe.weight_decay=1,2", "optim.weight_decay=0"})}},
    {"probe-names", {probe({"probe.lr=1,1.0000001"})}},
    {"probe-clip", {probe({"probe.lr=1,2"})}},
    {"tp-probe-heads", {probe({"parallel.tp=32"}), 32}},
    {"images", {{"model.family=vlm"}}},
    {"clips", {of_clips({"data.source=scenes"})}},
    {"no-chunks", {vlm({"vision.chunked=true"})}},
    {"no-pooling", {of_clips({"vision.pre_norm=true"})}},
    {"no-tiles", {of_clips({"vlm.max_tiles=2"})}},
    {"one-tubelet", {vlm({"vision.frames=2"})}},
    {"pooling", {vlm({"vision.pooling=attention"})}},
    {"layer", {vlm({"vlm.layer=4"})}},
    {"fit-wide", {vlm({"vlm.fit=wide", "vlm.max_tiles=0"})}},
    {"fit-pad", {vlm({"vlm.fit=pad"})}},
    {"projector", {vlm({"projector.kind=none"})}},
    {"merger-grid", {vlm({"projector.kind=merger", "vision.pooling=class"})}},
    {"merger-image", {vlm({"projector.kind=merger", "vision.image=24"})}},
    {"no-queries", {vlm({"projector.queries=5"})}},
    {"resampler", {vlm({"projector.kind=perceiver", "projector.hidden=64"})}},
    {"qformer-heads", {vlm({"projector.kind=qformer", "projector.heads=5"})}},
    {"one-token", {vlm({"vlm.tokens=[300, 300]"})}},
    {"vlm-vocab", {vlm({"model.vocab=256"})}},
    {"vlm-tokenizer", {vlm({"model.vocab=300", "data.tokenizer=x"}), 1, {.vocab = 400}}},
    {"clip-bytes", {of_clips({"data.tokenizer=x"})}},
    {"mrope", {vlm({"vlm.mrope=4,2,3"})}},
    {"features-cp", {vlm({"vlm.features=x", "parallel.cp=2"}), 2}},
    {"features-frozen", {vlm({"vlm.features=x"})}},
    {"cross-heads", {crossing({"vlm.cross=[1, 0]"})}},
    {"cross-tiles", {vlm({"vlm.cross=[1, 8]"})}},
    {"cross-pack", {crossing({"vlm.pack=true"})}},
    {"cross-rows", {crossing({"vlm.mrope=4,2,2"})}},
    {"cross-blocks", {crossing({"vlm.cross=[9, 8]"})}},
    {"tp-cross-heads", {crossing({"vlm.cross=[1, 2]", "parallel.tp=4"}), 4}},
    {"deepstack", {vlm({"vlm.deepstack=3"})}},
    {"projector-grid", {arrcoc({"projector.kind=merger"})}},
    {"no-projector", {arrcoc({"projector.kind=none"})}},
    {"grid", {arrcoc_of_files({"vision.image=66", "vision.patch=2", "arrcoc.grid=4"})}},
    {"texture", {arrcoc_of_files({"vision.image=288", "arrcoc.grid=3"})}},
    {"quadrants", {arrcoc({"arrcoc.grid=4"})}},
    {"turned-regions", {arrcoc({"vision.heads=64"})}},
    {"gpt-blocks", {arrcoc({"arrcoc.decoder=gpt", "model.qk_norm=true"})}},
    {"gpt-kv-heads", {arrcoc({"arrcoc.decoder=gpt", "model.kv_heads=2"})}},
    {"gpt-lora", {arrcoc({"arrcoc.decoder=gpt", "lora.rank=2", "lora.targets=query_value"})}},
    {"arrcoc-vocab", {arrcoc({"model.vocab=7"})}},
    {"sides", {arrcoc({"arrcoc.sides=[20, 20]"})}},
    {"least-budget", {arrcoc({"arrcoc.budget=255"})}},
    {"most-budget", {arrcoc({"arrcoc.budget=1601"})}},
    {"question", {arrcoc({"model.seq_len=576"})}},
    {"axes", {arrcoc({"model.heads=16"})}},
    {"channels", {arrcoc({"arrcoc.channels=depth"})}},
    {"scorers", {arrcoc({"arrcoc.scorers=depth"})}},
    {"training-scorers", {arrcoc({"arrcoc.penalties=[0, 0.01]", "arrcoc.scorers=random"})}},
    {"whole-budget", {arrcoc({"arrcoc.penalties=[0.1, 0]"})}},
    {"mesh", {{"parallel.dp_shard=3"}, 4}},
    {"tp-tower-ffn", {vit({"parallel.tp=4", "vision.ffn=3"}), 4}},
    {"pixels", {vit({"vision.pixels=grey"})}},
    {"simpo-gamma", {preferences({"preference.gamma=1"})}},
    {"dpo-smoothing", {preferences({"preference.loss=ipo", "preference.label_smoothing=0.1"})}},
    {"kto-weights", {preferences({"preference.label_weights=[2, 1]"})}},
    {"compared-beta", {preferences({"preference.loss=grpo", "preference.beta=0.2"})}},
    {"policy-keys", {preferences({"preference.loss=kto", "preference.kl=0.1"})}},
    {"dr-grpo-tokens", {preferences({"preference.loss=dapo", "preference.answer_tokens=8"})}},
    {"clip", {preferences({"preference.loss=cispo", "preference.clip=[0.2, 0.2]"})}},
    {"whole-answers", {preferences({"data.chat=llama3 long=split"})}},
    {"reference", {preferences({"preference.loss=orpo", "preference.reference=dir"})}},
    {"reference-noise", {preferences({"model.dropout=0.1"})}},
    {"islands", {{"network.outer=islands:3", "parallel.dp_replicate=4"}, 4}},
    {"rows-in-order", {vit({"parallel.cp=2", "parallel.context=ulysses"}), 2}},
    {"tp-heads", {{"parallel.tp=8"}, 8}},
    {"tp-tower-heads", {vit({"parallel.tp=8"}), 8}},
    {"tp-ffn", {{"parallel.tp=4", "model.ffn=2"}, 4}},
    {"tp-vocab",
     {{"parallel.tp=4", "model.vocab=300", "model.heads=512", "model.hidden=512", "parallel.tp=512",
       "model.seq_len=512"},
      512}},
    {"tp-tokens", {{"parallel.tp=4", "model.seq_len=3"}, 4}},
    {"zigzag", {{"parallel.cp=2", "model.seq_len=30"}, 2}},
    {"inner-ranks", {{"parallel.cp=4", "parallel.context=hierarchical:3"}, 4}},
    {"inner-heads", {{"parallel.cp=16", "parallel.context=hierarchical:8"}, 16}},
    {"ulysses-heads", {{"parallel.cp=8", "parallel.context=ulysses"}, 8}},
    {"schedule-file", {{"parallel.schedule=own.csv", "parallel.virtual_stages=2"}}},
    {"recompute-parts", {{"recompute.parts=mlp"}}},
    {"recompute-memory", {{"recompute.memory=1GiB"}}},
    {"recompute-auto", {{"recompute.policy=auto"}}},
    {"recompute-nodes", {{"recompute.nodes=head"}}},
    {"offload-path", {{"offload.path=/tmp"}}},
    {"fp64", {{"precision.compute=fp64", "precision.grads=fp32"}}},
    {"bf16", {{"precision.compute=bf16", "precision.grads=fp64"}}},
    {"fp32", {{"precision.compute=fp16", "precision.master=bf16"}}},
    {"fp64-reduce", {{"precision.compute=fp64", "precision.reduce=fp32"}}},
    {"bf16-reduce", {{"precision.compute=bf16", "precision.grads=bf16", "precision.reduce=fp32"}}},
    {"fp32-reduce", {{"precision.reduce=fp64"}}},
    {"canonical-grads", {{"precision.compute=bf16", "precision.grads=bf16"}}},
    {"canonical-reduce", {{"precision.reduce=bf16"}}},
    {"loss-scale", {{"precision.loss_scale=-2"}}},
    {"int8-tp", {{"optim.states=int8", "parallel.tp=2"}, 2}},
    {"int8-master", {{"optim.states=int8", "precision.compute=fp64"}}},
    {"muon-keys", {{"optim.momentum=0.9"}}},
    {"muon-tp", {{"optim.name=muon", "parallel.tp=2"}, 2}},
    {"muon-states", {{"optim.name=muon", "optim.states=int8"}}},
    {"muon-master", {{"optim.name=muon", "precision.compute=bf16", "precision.master=bf16"}}},
    {"muon-device", {{"optim.name=muon", "run.device=cuda"}}},
    {"lora-off", {{"lora.alpha=8"}}},
    {"lora-family", {vit({"lora.rank=2"})}},
    {"lora-fused", {{"lora.rank=2", "lora.targets=query_value"}}},
    {"patterns", {{"model.frozen=block.[0"}}},
    {"lora-rank", {{"lora.rank=65"}}},
    {"lora-frozen", {{"lora.rank=4", "model.frozen=embed"}}},
    {"base-tp", {{"lora.rank=4", "lora.base=nf4", "parallel.tp=2"}, 2}},
    {"base-dora", {{"lora.rank=4", "lora.base=int8", "lora.dora=true"}}},
    {"base-saved", {{"lora.rank=4", "lora.base=nf4"}}},
    {"trainable-all", {{"checkpoint.trainable_only=true"}}},
    {"trainable-weights", {{"checkpoint.trainable_only=true", "lora.rank=4"}}},
    {"keep-all", {{"checkpoint.keep_also=[10, 0]"}}},
    {"keep-best", {{"checkpoint.keep_last=2", "checkpoint.keep_also=[0, 1]"}}},
    {"memory-snapshots", {{"checkpoint.memory_every=5", "offload.optimizer=nvme"}}},
    {"spikes-off", {{"run.spikes=[0, 50]"}}},
    {"spike-window", {{"run.spikes=[10, 2]"}}},
    {"spike-checkpoints", {{"run.spikes=[10, 100]"}}},
    {"spike-reach", {{"run.spikes=[10, 100]", "checkpoint.every=50", "checkpoint.keep_last=2"}}},
    {"gpu-sums", {{"run.device=cuda"}, 2}},
    {"batch", {{"run.global_batch=2"}, 4}},
    {"fast-group", {{"precision.group=2", "precision.numerics=fast"}}},
    {"sum-group", {{"precision.group=16"}}},
    {"nccl", {{"network.nccl=ring"}}},
    {"nccl-device", {{"network.nccl=algo=Ring"}}},
    {"algorithm-device", {{"network.algorithm=ring", "run.device=cuda"}}},
    {"halving", {{"network.algorithm=halving", "run.global_batch=6"}, 3}},
    {"gather-codec", {{"network.gather=sign"}}},
    {"gather", {{"network.gather=q8", "offload.optimizer=host"}}},
    {"gather-zero", {{"network.gather=q8:2", "parallel.zero=1"}, 4}},
    {"gather-shards", {{"network.gather=q8:3", "parallel.zero=3"}, 4}},
    {"senders-off", {{"network.senders=2"}}},
    {"codec-text", {{"network.codec=q5"}}},
    {"codec", {{"network.codec=q8", "offload.grads=host"}}},
    {"codec-residuals", {{"network.codec=q8:fp32", "offload.optimizer=host"}}},
    {"integers", {{"network.codec=i8x", "network.senders=16909321"}}},
    {"codec-whole-sums", {{"network.codec=lowrank:4", "parallel.zero=3"}, 2}},
    {"codec-back", {{"network.codec=q4/q8", "parallel.zero=3"}, 2}},
    {"codec-groups", {{"network.codec=q4", "parallel.zero=3", "precision.group=2"}, 2}},
    {"codec-shards", {{"network.codec=q4", "parallel.zero=3", "run.global_batch=12"}, 3}},
    {"senders-of-each", {{"network.codec=q4", "parallel.zero=3", "network.senders=3"}, 4}},
    {"senders", {{"network.codec=q8", "network.senders=3"}}},
    {"islands-loss",
     {{"network.outer=islands:2", "model.family=clip", "parallel.schedule=gpipe",
       "data.source=scenes", "model.seq_len=54"},
      2}},
    {"islands-spikes",
     {{"network.outer=islands:2", "run.spikes=[10, 100]", "checkpoint.every=10"}, 2}},
    {"islands-codec", {{"network.outer=islands:2", "network.codec=q8"}, 2}},
    {"islands-states", {{"network.outer=islands:2", "optim.from_weights=true"}, 2}},
    {"islands-trainable",
     {{"network.outer=islands:2", "checkpoint.trainable_only=true", "lora.rank=4",
       "model.weights=dir"},
      2}},
    {"islands-offload", {{"network.outer=islands:2", "offload.params=host"}, 2}},
    {"islands-master",
     {{"network.outer=islands:2", "precision.compute=bf16", "precision.master=bf16"}, 2}},
    {"islands-direction", {{"network.outer=islands:2,merge:direction", "parallel.tp=2"}, 4}},
    {"islands-coded", {{"network.outer=islands:2,codec:f4", "precision.compute=fp64"}, 2}},
    {"coupled-batch",
     {{"model.family=clip", "data.source=scenes", "model.seq_len=54", "run.micro_batch=2"}}},
    {"min-lr", {{"optim.min_lr=0.1"}}},
    {"warmup-lr", {{"optim.warmup_lr=1e-2", "optim.warmup_steps=10"}}},
    {"warmup-lr-steps", {{"optim.warmup_lr=1e-4"}}},
    {"warmup-run", {{"optim.warmup_steps=101"}}},
    {"warmup-decay", {{"optim.warmup_steps=60", "optim.decay_steps=50"}}},
    {"wsd-decay", {{"optim.schedule=wsd:0.5", "optim.warmup_steps=60"}}},
    {"validation", {{"data.validation=0.7"}}},
    {"validation-samples", {{"run.eval_every=10", "data.validation=0"}}},
    {"antialias", {{"data.antialias=false"}}},
    {"weights-source", {{"data.weights=0.5,0.5", "data.path=a,b"}}},
    {"weights-pack",
     {{"model.family=vlm", "data.source=pairs", "data.path=a,b", "data.weights=1,1",
       "vlm.pack=true"}}},
    {"data-sets", {vit({"data.source=images", "data.path=a,b", "data.weights=1"})}},
    {"trace", {{"run.trace=101"}}},
};

Job job_of(const Breaking& breaking) {
  Job job;
  for (const std::string& set : breaking.sets) apply_set(job, set);
  return job;
}

// The first rule that refuses the job.
std::string_view broken_by(const Breaking& breaking) {
  Job job = job_of(breaking);
  for (const Rule& rule : rules()) {
    try {
      run(rule, job, {breaking.world, breaking.data});
    } catch (const Error&) {
      return rule.id;
    }
  }
  return "none";
}

TEST(Rules, EachHasAJobThatBreaksIt) {
  for (const Rule& rule : rules()) {
    const bool checks = rule.check || rule.fits != nullptr;
    EXPECT_TRUE(!checks || kBreaking.contains(rule.id)) << rule.id << " has no breaking job";
  }
  for (const auto& [id, breaking] : kBreaking) {
    const std::string message =
        usage_error_of([&] { resolve(job_of(breaking), breaking.world, breaking.data); });
    EXPECT_EQ(broken_by(breaking), id) << message;
    EXPECT_THAT(message, ContainsRegex("[a-z]+[.][a-z_]+")) << id << " names a key";
  }
}

TEST(Rules, HaveIdsOfTheirOwn) {
  std::vector<std::pair<std::string_view, std::optional<Family>>> ids;
  for (const Rule& rule : rules()) ids.emplace_back(rule.id, rule.family);
  std::ranges::sort(ids);
  EXPECT_EQ(std::ranges::adjacent_find(ids), ids.end());
}

}  // namespace
}  // namespace trireme::config::rules_test
