// Every rule has a job that breaks it before any other, in one line.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "tests/config/error_of.h"
#include "trireme/config/rules/rule.h"

namespace trireme::config::rules_test {
namespace {

using ::testing::ContainsRegex;

struct Breaking {
  std::vector<std::string> sets;
  int world = 1;
};

std::vector<std::string> preferences(std::vector<std::string> more) {
  more.insert(more.end(), {"data.source=preferences", "data.path=x.jsonl"});
  return more;
}
std::vector<std::string> vit(std::vector<std::string> more) {
  more.insert(more.begin(), {"model.family=vit", "data.source=stripes"});
  return more;
}

const std::map<std::string_view, Breaking> kBreaking = {
    {"family-keys", {{"jepa.layers=3"}}},
    {"chat-source", {{"data.chat=llama3"}}},
    {"preference-source", {{"preference.beta=1"}}},
    {"chat-family", {{"model.family=hnet", "data.source=chat"}}},
    {"chat-path", {{"data.source=chat"}}},
    {"simpo-gamma", {preferences({"preference.gamma=1"})}},
    {"dpo-smoothing", {preferences({"preference.loss=ipo", "preference.label_smoothing=0.1"})}},
    {"kto-weights", {preferences({"preference.label_weights=[2, 1]"})}},
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
    {"inner-groups", {{"parallel.cp=2", "parallel.context=hierarchical"}, 2}},
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

const DatasetFacts kData{.vocab = 256, .classes = 4};

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
      run(rule, job, {breaking.world, kData});
    } catch (const Error&) {
      return rule.id;
    }
  }
  return "none";
}

TEST(Rules, EachHasAJobThatBreaksIt) {
  for (const Rule& rule : rules())
    if (rule.check) EXPECT_TRUE(kBreaking.contains(rule.id)) << rule.id << " has no breaking job";
  for (const auto& [id, breaking] : kBreaking) {
    const std::string message =
        usage_error_of([&] { resolve(job_of(breaking), breaking.world, kData); });
    EXPECT_EQ(broken_by(breaking), id) << message;
    EXPECT_THAT(message, ContainsRegex("[a-z]+[.][a-z_]+")) << id << " names a key";
  }
}

TEST(Rules, HaveIdsOfTheirOwn) {
  std::vector<std::string_view> ids;
  for (const Rule& rule : rules()) ids.push_back(rule.id);
  std::ranges::sort(ids);
  EXPECT_EQ(std::ranges::adjacent_find(ids), ids.end());
}

}  // namespace
}  // namespace trireme::config::rules_test
