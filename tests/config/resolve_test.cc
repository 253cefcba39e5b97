#include "trireme/config/resolve/resolve.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/config/error_of.h"
#include "trireme/base/cpu.h"
#include "trireme/config/parse.h"
#include "trireme/config/synthetic.h"

namespace trireme::config::resolve_test {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// The types of a resolved job, and how it rounds and scales.
TEST(Resolve, Precision) {
  const auto precision = [](std::vector<std::string> sets) {
    Job job;
    for (const std::string& set : sets) apply_set(job, "precision." + set);
    const Job resolved = resolve(job, 1, {.vocab = 256});
    EXPECT_EQ(resolve(resolved, 1, {.vocab = 256}), resolved);
    return resolved.precision;
  };
  const Precision half = precision({"compute=fp16"});
  EXPECT_EQ(half.master, DType::kF32);
  EXPECT_EQ(half.grads, DType::kF32);
  EXPECT_EQ(half.loss_scale, "dynamic");
  EXPECT_EQ(precision({"compute=bf16"}).loss_scale, "off");
  EXPECT_EQ(fixed_loss_scale(precision({})), 1);
  EXPECT_EQ(precision({"compute=auto"}).compute, fast_type(matrix_unit()));
  EXPECT_EQ(precision({"compute=auto", "compute=fp64"}).compute, DType::kF64);
  Job gpus;
  for (const char* set : {"precision.compute=auto", "run.device=cuda"}) apply_set(gpus, set);
  EXPECT_NE(print_yaml(gpus).find("compute: auto"), std::string::npos);
  EXPECT_EQ(resolve(gpus, 1, {.vocab = 256}).precision.compute, DType::kBF16);
  EXPECT_EQ(fixed_loss_scale(precision({"compute=fp16", "loss_scale=1024"})), 1024);
  EXPECT_EQ(fixed_loss_scale(precision({"compute=fp16", "loss_scale=off"})), 1);
  EXPECT_EQ(precision({"loss_scale=dynamic"}).loss_scale, "dynamic");

  const Precision pure = precision({"compute=bf16", "master=bf16"});
  EXPECT_EQ(pure.grads, DType::kF32);
  const Precision narrow = precision({"compute=bf16", "grads=bf16", "numerics=fast"});
  EXPECT_EQ(narrow.reduce, DType::kBF16);
  const Precision travelling = precision({"compute=fp16", "reduce=bf16", "numerics=fast"});
  EXPECT_EQ(travelling.grads, DType::kF32);
  EXPECT_EQ(travelling.reduce, DType::kBF16);
}

TEST(Resolve, FillsWhatIsDerived) {
  Job job;
  job.parallel.dp_replicate = 2;
  job.precision.compute = DType::kBF16;
  const Job resolved = resolve(job, 8, {.vocab = 256});
  EXPECT_EQ(resolved.parallel.dp_shard, 4);
  EXPECT_EQ(resolved.model.kv_heads, 4);
  EXPECT_EQ(resolved.model.ffn, 256);
  EXPECT_EQ(resolved.model.vocab, 256);
  EXPECT_EQ(resolved.optim.decay_steps, 100);
  EXPECT_EQ(resolved.precision.master, DType::kF32);
  EXPECT_EQ(resolved.precision.grads, DType::kF32);
  EXPECT_EQ(resolved.precision.reduce, DType::kF32);
  EXPECT_EQ(dp(resolved), 8);
  EXPECT_EQ(resolve(resolved, 8, {.vocab = 256}), resolved);
  EXPECT_EQ(parse_job(print_yaml(resolved), "job.lock.yaml"), resolved);
}

// precision.group follows from the global batch, as far as ranks have multiples of it.
TEST(Resolve, GroupsOfMicroBatchesFollowFromTheGlobalBatch) {
  const auto with = [](std::int64_t batch, int ranks, std::int64_t group,
                       Numerics numerics = Numerics::kCanonical) {
    Job job;
    job.run.global_batch = batch;
    job.precision.group = group;
    job.precision.numerics = numerics;
    return resolve(job, ranks, {.vocab = 256});
  };
  for (std::int64_t batch : {1, 8, 64}) EXPECT_EQ(sum_group(with(batch, 1, 0)), 1) << batch;
  for (int ranks : {1, 2, 64}) EXPECT_EQ(sum_group(with(1024, ranks, 0)), 16) << ranks;
  EXPECT_EQ(sum_group(with(1024, 1, 0, Numerics::kFast)), 1);
  EXPECT_EQ(sum_group(with(1024, 1024, 0)), 1);  // one micro-batch a rank
  EXPECT_THAT(notes(with(1024, 128, 0)),
              ::testing::Contains(HasSubstr("groups of 8 here, with other bits than on at most 64 "
                                            "data-parallel ranks; precision.group=8 on both")));
  EXPECT_THAT(notes(with(1024, 64, 0)), ::testing::Not(::testing::Contains(HasSubstr("groups"))));
  EXPECT_EQ(sum_group(with(32, 2, 16)), 16);
  EXPECT_THAT(
      usage_error_of([&] { with(32, 4, 16); }),
      HasSubstr("precision.group=16: a rank has 8 of 32 micro-batches, no multiple of it; "
                "set a number of data-parallel ranks that divides 2, or precision.group=8"));
  EXPECT_THAT(usage_error_of([&] { with(32, 1, 16, Numerics::kFast); }),
              HasSubstr("precision.group=16 with precision.numerics=fast: it has no effect"));
}

TEST(Resolve, GpusDoNotSumCanonically) {
  Job job;
  job.run.device = Device::kCuda;
  EXPECT_NO_THROW(resolve(job, 1, {.vocab = 256}));
  EXPECT_THAT(usage_error_of([&] { resolve(job, 2, {.vocab = 256}); }),
              HasSubstr("set precision.numerics=fast"));
  job.precision.numerics = Numerics::kFast;
  EXPECT_NO_THROW(resolve(job, 2, {.vocab = 256}));
}

TEST(Resolve, Fp64IsWideThroughout) {
  Job job;
  job.precision.compute = DType::kF64;
  EXPECT_EQ(resolve(job, 1, {.vocab = 256}).precision.master, DType::kF64);
}

TEST(Resolve, OffloadKeysHaveSomethingToSay) {
  const auto with = [](const std::vector<std::string>& sets) {
    Job job;
    for (const std::string& set : sets) apply_set(job, set);
    return resolve(job, 1, {.vocab = 256});
  };
  EXPECT_NO_THROW(with({"offload.optimizer=nvme", "offload.path=/tmp"}));
  EXPECT_THAT(usage_error_of([&] { with({"offload.path=/tmp"}); }),
              HasSubstr("offload.path=/tmp: "));
  EXPECT_EQ(with({"offload.optimizer=host:0.5"}).offload.ratio, 0.5);
  EXPECT_THAT(usage_error_of([&] { with({"offload.optimizer=none:0.5"}); }),
              HasSubstr("host:SHARE or nvme:SHARE with SHARE above 0 up to 1"));
  EXPECT_THAT(usage_error_of([&] {
                with({"offload.params=host", "offload.path=/tmp"});
              }),
              HasSubstr("nothing is offloaded to nvme"));
  EXPECT_THAT(usage_error_of([&] { with({"offload.params=tp"}); }), HasSubstr("none, host"));
  EXPECT_THAT(notes(with({"offload.grads=host"})),
              ::testing::Contains(HasSubstr("ranks compute in host memory")));
  EXPECT_THAT(notes(with({"offload.grads=host", "run.device=cuda"})),
              ::testing::Contains(HasSubstr("synchronous and from pageable memory")));
  EXPECT_THAT(notes(with({"offload.grads=nvme"})),
              ::testing::Not(::testing::Contains(HasSubstr("host memory"))));
}

TEST(Resolve, RecomputeKeysBelongToTheirPolicy) {
  const auto with = [](const std::vector<std::string>& sets) {
    Job job;
    for (const std::string& set : sets) apply_set(job, set);
    resolve(job, 1, {.vocab = 256});
  };
  struct Case {
    const char *policy, *key;
  };
  for (const auto& [policy, key] : {Case{"selective", "parts=mlp"}, Case{"auto", "memory=1GiB"}}) {
    const std::string chosen = std::string("recompute.policy=") + policy;
    const std::string set = std::string("recompute.") + key;
    EXPECT_NO_THROW(with({chosen, set, "recompute.nodes=block.*"}));
    EXPECT_THAT(usage_error_of([&] { with({set}); }),
                HasSubstr("recompute.policy=none: it has no effect; set " + chosen));
    if (std::string(policy) == "auto") {
      EXPECT_THAT(usage_error_of([&] { with({chosen}); }),
                  HasSubstr("it needs the budget of a rank; set recompute.memory"));
    }
  }
  EXPECT_THAT(usage_error_of([&] { with({"recompute.nodes=head"}); }),
              HasSubstr("recompute.nodes=head with recompute.policy=none: "));
}

// anchors.md, "Grids and arithmetic": (global, micro, dp) -> accumulation.
TEST(Resolve, AccumulationAnchors) {
  Job job;
  job.run.global_batch = 32;
  job.run.micro_batch = 8;
  EXPECT_EQ(accumulation(resolve(job, 2, {.vocab = 256})), 2);
  job.run.global_batch = 16;
  job.run.micro_batch = 4;
  EXPECT_THAT(usage_error_of([&] { resolve(job, 3, {.vocab = 256}); }),
              HasSubstr("parallel.dp_shard=3 = 12"));
}

// models.md: Llama-2 7B and 13B, and the families' other rule.
TEST(Resolve, FeedForwardWidths) {
  Job job;
  job.model.family = Family::kLlama;
  for (const auto& [hidden, ffn] :
       {std::pair{4096, 11008}, {5120, 13824}, {64, 256}, {768, 2048}}) {
    job.model.hidden = hidden;
    EXPECT_EQ(resolve(job, 1, {.vocab = 256}).model.ffn, ffn) << hidden;
  }
  job.model.family = Family::kGpt;
  EXPECT_EQ(resolve(job, 1, {.vocab = 256}).model.ffn, 4 * 768);
  job.model.ffn = 100;
  EXPECT_EQ(resolve(job, 1, {.vocab = 256}).model.ffn, 100);
}

TEST(Resolve, VocabularyMayBeLargerThanTheDataset) {
  Job job;
  job.model.vocab = 50304;
  EXPECT_EQ(resolve(job, 1, {.vocab = 50257}).model.vocab, 50304);
  EXPECT_EQ(resolve(job, 1, {}).model.vocab, 50304);
}

TEST(Resolve, WhatIsLeftOfTheWorldIsShards) {
  Job job;
  job.parallel.tp = 2;
  job.parallel.pp = 2;
  const Job resolved = resolve(job, 16, {.vocab = 256});
  EXPECT_EQ(resolved.parallel.dp_shard, 4);
}

TEST(Notes, SpeakOnlyWhereBitsOrShardsSurprise) {
  Job job;
  EXPECT_THAT(notes(resolve(job, 4, {.vocab = 256})), IsEmpty());
  job.run.global_batch = 12;
  job.parallel.zero = 1;
  EXPECT_THAT(notes(resolve(job, 3, {.vocab = 256})), SizeIs(1));
  job.parallel.zero = 2;
  EXPECT_THAT(notes(resolve(job, 3, {.vocab = 256})), IsEmpty()) << "any number of shards";
  job.parallel.dp_replicate = 3;
  EXPECT_THAT(notes(resolve(job, 3, {.vocab = 256})), testing::Not(IsEmpty())) << "of replicas not";
  job.parallel.dp_replicate = 1;
  job.precision.numerics = Numerics::kFast;
  EXPECT_THAT(notes(resolve(job, 3, {.vocab = 256})), IsEmpty());
  job.parallel.zero = 3;
  job.parallel.dp_replicate = 3;
  EXPECT_THAT(notes(resolve(job, 3, {.vocab = 256})), SizeIs(1));
}

Job recipe(const char* name) { return load_job(Path(TRIREME_SOURCE_DIR) / "recipes" / name); }

// Every recipe loads, resolves on the byte vocabulary, says how to run it, and can be executed.
// Ranks that a recipe's first line starts.
int ranks_of(const std::string& text) {
  if (text.find("--nnodes 2 --nproc-per-node 8") != std::string::npos) return 16;
  const std::size_t found = text.find("--ranks ");
  return found == std::string::npos ? 1 : std::stoi(text.substr(found + 8));
}

void expect_jobs(const std::string& folder, int at_least) {
  int seen = 0;
  for (const auto& entry : std::filesystem::directory_iterator(Path(TRIREME_SOURCE_DIR) / folder)) {
    if (entry.is_directory()) continue;
    SCOPED_TRACE(entry.path().string());
    const std::string text = read_file(entry.path());
    for (const Phase& phase : load_phases(entry.path())) {
      EXPECT_EQ(phase.job.data.path, "");
      const SyntheticSource* synthetic = config::synthetic_source(phase.job.data.source);
      const DatasetFacts facts =
          synthetic != nullptr ? synthetic->facts : DatasetFacts{.vocab = 256};
      Job given = phase.job;
      if (!files_of(given.data.source).empty()) given.data.path = "PAIRS";
      const Job job = resolve(given, ranks_of(text), facts);
      EXPECT_EQ(parse_job(print_yaml(job), "lock"), job);
    }
    const std::string name = folder + "/" + entry.path().filename().string();
    EXPECT_THAT(text,
                AnyOf(HasSubstr("# Run: trireme train " + name), HasSubstr("-- train " + name),
                      HasSubstr("# Run: trireme explain " + name)));
    ++seen;
  }
  EXPECT_GE(seen, at_least);
}

TEST(Recipes, LoadAndResolve) {
  expect_jobs("recipes", 6);
  expect_jobs("recipes/phases", 2);
}

// DESIGN, section 5: sizes that others rely on.
TEST(Recipes, HaveTheContractsSizes) {
  const Job tiny = recipe("gpt_tiny.yaml");
  EXPECT_EQ(tiny.model.layers, 2);
  EXPECT_EQ(tiny.model.hidden, 64);
  EXPECT_EQ(tiny.model.heads, 4);
  EXPECT_EQ(tiny.model.seq_len, 32);
  const Job llama = recipe("llama_tiny.yaml");
  EXPECT_EQ(llama.model.family, Family::kLlama);
  EXPECT_EQ(llama.model.kv_heads, 2);
  for (int world : {1, 2, 4, 8}) {
    EXPECT_EQ(accumulation(resolve(tiny, world, {.vocab = 256})), 8 / world);
    EXPECT_EQ(accumulation(resolve(llama, world, {.vocab = 256})), 8 / world);
  }
  // models.md: V D + T D + L (12 D^2 + 13 D) + 2 D.
  const auto parameters = [](const Model& m) {
    return m.vocab * m.hidden + m.seq_len * m.hidden +
           m.layers * (12 * m.hidden * m.hidden + 13 * m.hidden) + 2 * m.hidden;
  };
  EXPECT_EQ(parameters(resolve(recipe("gpt_s.yaml"), 1, {.vocab = 256}).model), 10'844'160);
  Model m = resolve(recipe("gpt_m.yaml"), 1, {.vocab = 256}).model;
  EXPECT_EQ(m.seq_len, 512);
  m.seq_len = 1024;
  EXPECT_EQ(parameters(m), 124'439'808);
}

TEST(Resolve, SpikesNeedSomethingToGoBackTo) {
  const auto resolved = [](std::vector<std::string> sets) {
    Job job;
    for (const std::string& set : sets) apply_set(job, set);
    return resolve(job, 1, {.vocab = 256});
  };
  const auto error = [&](std::vector<std::string> sets) {
    return usage_error_of([&] { resolved(sets); });
  };
  resolved({"run.spikes=[10, 100]", "checkpoint.every=50"});
  resolved({"run.spikes=[10, 100]", "checkpoint.every=50", "checkpoint.keep_last=3"});
  resolved({"run.spikes=[10, 100]", "checkpoint.every=50", "checkpoint.keep_last=1",
            "checkpoint.keep_also=[100, 0]"});
  EXPECT_THAT(error({"run.spikes=[0, 50]"}), HasSubstr("has no effect without a z-score"));
  EXPECT_THAT(error({"run.spikes=[10, 100]"}),
              HasSubstr("checkpoint.every=0: there would be no checkpoint to rewind to"));
  EXPECT_THAT(error({"run.spikes=[10, 100]", "checkpoint.every=50", "checkpoint.keep_last=2"}),
              HasSubstr("only 51 steps before a spike; set checkpoint.keep_last=3 or more"));
  EXPECT_THAT(error({"run.spikes=[10, 100]", "checkpoint.every=10", "checkpoint.keep_last=2"}),
              HasSubstr("only 11 steps before a spike; set checkpoint.keep_last=11 or more"));
  resolved({"run.spikes=[10, 100]", "checkpoint.every=10", "checkpoint.keep_last=11"});
  EXPECT_THAT(error({"run.spikes=[10, 99.5]"}),
              HasSubstr("99.5 is not whole; needs a list of two numbers, the second whole"));
  EXPECT_THAT(error({"run.spikes=[-1, 100]"}), HasSubstr("run.spikes"));
  EXPECT_THAT(error({"run.spikes=[10, 2]"}), HasSubstr("needs 8 to 10000"));
}

}  // namespace
}  // namespace trireme::config::resolve_test
