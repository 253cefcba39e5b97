#include "trireme/planner/cost/pricing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/formats/scratch.h"
#include "tests/planner/cards.h"
#include "trireme/base/error.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/model/families/describe.h"
#include "trireme/planner/cost/estimate.h"
#include "trireme/planner/hardware/cluster_file.h"

namespace trireme::planner::pricing_test {
namespace {

using plan::Verb;
using ::testing::HasSubstr;

Cluster one_card() {
  Cluster cluster{.name = "card", .gpus_per_host = 1, .hosts = 1};
  cluster.gpu = synthetic_card();
  return cluster;
}

config::Job job_with(const std::vector<std::string>& sets) {
  config::Job job;
  job.model = {.layers = 4, .hidden = 1024, .heads = 8, .vocab = 32000, .seq_len = 512};
  job.precision.compute = DType::kBF16;
  job.run.global_batch = 8;
  job.run.micro_batch = 8;
  for (const std::string& set : sets) config::apply_set(job, set);
  return config::resolve(job, 1, {});
}

// Seconds of a node's line on that card.
double node_seconds(const config::Job& job, const std::string& name, Verb verb,
                    const Gpu& gpu = one_card().gpu) {
  Cluster cluster = one_card();
  cluster.gpu = gpu;
  return node_seconds(cluster, job, name, verb);
}

TEST(NodePrices, ANodeOfAnotherTypeHasThatTypesRate) {
  const config::Job half = job_with({}), wide = job_with({"precision.compute=fp32"}),
                    mixed = job_with({"precision.nodes=block.2=fp32"});
  const double converted =
      seconds(one_card().gpu, {stream(2.0 * 4096 * 1024 * (2 + 4), 2)});  // read, and written
  EXPECT_DOUBLE_EQ(node_seconds(mixed, "block.2", Verb::kForward),
                   node_seconds(wide, "block.2", Verb::kForward) + converted);
  EXPECT_GT(node_seconds(mixed, "block.2", Verb::kBackward),
            node_seconds(wide, "block.2", Verb::kBackward));
  for (const Verb verb : {Verb::kForward, Verb::kBackward})
    EXPECT_EQ(node_seconds(mixed, "block.1", verb), node_seconds(half, "block.1", verb));
}

TEST(NodePrices, Fp64IsRefusedWhereNobodyKnowsItsRate) {
  const config::Job job = job_with({"precision.compute=fp64"});
  EXPECT_EQ(
      formats::refusal([&] { node_seconds(job, "block.0", Verb::kForward); }, ErrorKind::kUsage),
      "gpu card has no fp64 rate; choose another precision or gpu");
}

TEST(NodePrices, WhatIsFrozenHasNoGradientsOfItsOwn) {
  const config::Job whole = job_with({}), frozen = job_with({"model.frozen=embed,block.1"});
  EXPECT_EQ(node_seconds(frozen, "block.1", Verb::kBackwardWeight), 0);
  EXPECT_DOUBLE_EQ(node_seconds(frozen, "block.1", Verb::kBackward),
                   node_seconds(whole, "block.1", Verb::kBackward) -
                       node_seconds(whole, "block.1", Verb::kBackwardWeight));
  EXPECT_EQ(node_seconds(frozen, "head", Verb::kBackwardWeight), 0);  // its matrix is the table
  EXPECT_EQ(node_seconds(frozen, "block.2", Verb::kBackward),
            node_seconds(whole, "block.2", Verb::kBackward));
}

TEST(NodePrices, AdaptersAreProductsOfTheirOwn) {
  const config::Job plain = job_with({}),
                    adapted = job_with({"lora.rank=16", "lora.targets=attention"});
  const Gpu gpu = one_card().gpu;
  const auto product = [&](double m, double n, double k) {
    return seconds(gpu, gemm(Math::kHalf, m, n, k));
  };
  const double rows = 8 * 512;
  EXPECT_DOUBLE_EQ(node_seconds(adapted, "block.0", Verb::kForward),
                   node_seconds(plain, "block.0", Verb::kForward) + product(rows, 16, 1024) +
                       product(rows, 3 * 1024, 16) + product(rows, 16, 1024) +
                       product(rows, 1024, 16));
  // Magnitudes: B A, the weight with it and its squares in fp32, then all results.
  const config::Job scaled = job_with({"lora.rank=16", "lora.targets=attention", "lora.dora=true"});
  double magnitudes = 0;
  for (const double out : {3.0 * 1024, 1.0 * 1024})
    magnitudes += seconds(gpu, gemm(Math::kFp32, out, 1024, 16)) +
                  seconds(gpu, stream(out * 1024 * (2 + 5 * 4), 4)) +
                  seconds(gpu, stream(rows * out * 2 * 2));
  EXPECT_NEAR(node_seconds(scaled, "block.0", Verb::kForward) -
                  node_seconds(adapted, "block.0", Verb::kForward),
              magnitudes, 1e-9 * magnitudes);
  const double adapters = node_seconds(adapted, "block.0", Verb::kBackwardWeight);
  EXPECT_GT(adapters, 0);
  EXPECT_LT(adapters, 0.3 * node_seconds(plain, "block.0", Verb::kBackwardWeight));
}

// Under nodes that train, frozen ones have no backward: the estimate and the plan say the same.
TEST(NodePrices, AnEstimateOfFrozenNodesIsNearThePlans) {
  const Cluster cluster = find_cluster("dgx-a100");
  const auto seconds_of = [&](const std::vector<std::string>& sets) {
    config::Job job = job_with({"model.layers=16"});
    for (const std::string& set : sets) config::apply_set(job, set);
    const Candidate candidate(config::resolve(job, 8, {}), {});
    const double step = candidate.step_seconds(cluster);
    EXPECT_NEAR(step / candidate.simulate(cluster).step_s, 1, 0.05)
        << ::testing::PrintToString(sets);
    return step;
  };
  for (const char* zero : {"parallel.zero=0", "parallel.zero=1", "parallel.zero=3"}) {
    const std::vector<std::string> common = {"parallel.dp_shard=8", "run.global_batch=256", zero};
    std::vector<std::string> frozen = common, lora = common;
    frozen.emplace_back("model.frozen=embed,block.[0-9]");
    lora.emplace_back("lora.rank=16");
    const double whole = seconds_of(common);
    EXPECT_LT(seconds_of(frozen), 0.7 * whole) << zero;
    EXPECT_LT(seconds_of(lora), 0.95 * whole) << zero;
  }
}

TEST(NodePrices, DropoutAndDocumentsLeaveFusedAttention) {
  const auto asked_of = [](const config::Job& job) { return asked({}, job, true); };
  const config::Job plain = job_with({}), dropout = job_with({"model.dropout=0.1"}),
                    documents = job_with({"data.documents=true"}),
                    half = job_with({"precision.compute=fp16"});
  EXPECT_EQ(asked_of(plain), Practice{});
  EXPECT_EQ(asked_of(half), Practice{});
  EXPECT_EQ(asked_of(documents), (Practice{.attention = AttentionKernel::kRows}));
  EXPECT_EQ(asked_of(dropout), (Practice{.attention = AttentionKernel::kRows, .dropout = true}));
  EXPECT_EQ(asked({}, dropout, false), (Practice{.dropout = true}));
  EXPECT_EQ(asked({.attention = AttentionKernel::kUnfused}, documents, true).attention,
            AttentionKernel::kUnfused);
  EXPECT_EQ(unfused(dropout), "model.dropout=0.1");
  EXPECT_EQ(unfused(job_with({"model.heads=256"})), "heads 4 wide");
  EXPECT_EQ(unfused(job_with({"model.family=llama", "model.attention_layers=full,sliding:64"})),
            "model.attention_layers=full,sliding:64");
  EXPECT_EQ(unfused(job_with({"model.family=llama", "model.attention_layers=sliding:4096"})), "")
      << "as long as the sequence";

  // 8 samples, 8 heads of 128: 2^26 scores are 512 x 512 of 64 four times over.
  const auto bytes = [](const std::vector<Kernel>& kernels) {
    double sum = 0;
    for (const Kernel& one : kernels)
      if (one.kind == Kernel::Kind::kStream) sum += one.bytes * one.count;
    return sum;
  };
  const auto flops = [](const std::vector<Kernel>& kernels) {
    double sum = 0;
    for (const Kernel& one : kernels)
      if (one.kind == Kernel::Kind::kGemm && one.math == Math::kFp32)
        sum += 2 * one.m * one.n * one.k * one.batch * one.count;
    return sum;
  };
  const NodeKernels fused = node_kernels(documents, {}, "block.0"),
                    rows = node_kernels(documents, asked_of(documents), "block.0"),
                    noisy = node_kernels(dropout, asked_of(dropout), "block.0");
  const double scores = 64.0 * 512 * 512, masks = 2.0 * 8 * 512 * 1024 * (1 + 140);
  EXPECT_EQ(flops(rows.forward), 4 * scores * 128);
  EXPECT_EQ(flops(rows.input), 10 * scores * 128);
  EXPECT_DOUBLE_EQ(bytes(rows.forward) - bytes(fused.forward), 40 * scores);
  EXPECT_DOUBLE_EQ(bytes(noisy.forward) - bytes(fused.forward), (40 + 140) * scores + masks);
  // Of more scores than that, rows see no keys behind them.
  const config::Job longer = job_with({"model.seq_len=8192", "data.documents=true"});
  EXPECT_NEAR(flops(node_kernels(longer, asked_of(longer), "block.0").forward) /
                  (256 * flops(rows.forward)),
              0.5, 0.01);
}

// Of 64 x 512 x 512 scores in fp32 and of 4096 x 32000 logits in bf16, by what operators of LibTorch read and write; on
// cores of a tanh a score.
TEST(NodePrices, SoftCapsCostAPassOverScoresAndLogits) {
  const config::Job plain = job_with({"model.family=llama"}),
                    capped = job_with(
                        {"model.family=llama", "llama.attention_cap=50", "llama.logits_cap=30"});
  EXPECT_EQ(unfused(capped), "llama.attention_cap=50");
  EXPECT_EQ(asked({}, capped, true).attention, AttentionKernel::kRows);
  const auto sum = [](const std::vector<Kernel>& kernels) {
    double all = 0;
    for (const Kernel& one : kernels)
      all += one.kind == Kernel::Kind::kStream      ? one.bytes * one.count
             : one.kind == Kernel::Kind::kAttention ? one.flops
                                                    : 0;
    return all;
  };
  const auto more = [&](const char* node, const Practice& practice, auto kernels) {
    return sum(node_kernels(capped, practice, node).*kernels) -
           sum(node_kernels(plain, practice, node).*kernels);
  };
  const double scores = 64.0 * 512 * 512, logits = 4096.0 * 32000;
  const Practice rows{.attention = AttentionKernel::kRows},
      cores{.attention = AttentionKernel::kTiles};
  EXPECT_DOUBLE_EQ(more("block.0", rows, &NodeKernels::forward), 4 * 6 * scores);
  EXPECT_DOUBLE_EQ(more("block.0", rows, &NodeKernels::input), 4 * (6 + 11) * scores);
  EXPECT_DOUBLE_EQ(more("head", rows, &NodeKernels::forward), 2 * 6 * logits);
  EXPECT_DOUBLE_EQ(more("head", rows, &NodeKernels::input), (2 + 4 * 11) * logits);
  EXPECT_GT(more("block.0", cores, &NodeKernels::forward), 0);
  EXPECT_DOUBLE_EQ(
      more("block.0", cores, &NodeKernels::input) / more("block.0", cores, &NodeKernels::forward),
      2.5);
  EXPECT_DOUBLE_EQ(more("head", cores, &NodeKernels::forward), 2 * 2 * logits);
  EXPECT_EQ(more("head", cores, &NodeKernels::input), 0);
}

// A layer with a window is priced by what it shows, one without rotary positions without the rotation.
TEST(NodePrices, LayersCostWhatTheyAttendTo) {
  const config::Job job = job_with({"model.family=llama", "model.seq_len=8192", "run.micro_batch=1",
                                    "model.attention_layers=full,sliding:512,nope"});
  const auto sum = [&](const char* node, const Practice& practice, Kernel::Kind kind) {
    double all = 0;
    for (const Kernel& one : node_kernels(job, practice, node).forward)
      if (one.kind == kind && (kind != Kernel::Kind::kGemm || one.math == Math::kFp32))
        all += one.count * (kind == Kernel::Kind::kGemm     ? one.m * one.n * one.k * one.batch
                            : kind == Kernel::Kind::kStream ? one.bytes
                                                            : one.flops);
    return all;
  };
  const double shown = (512.0 * 8192 - 512.0 * 511 / 2) / (8192.0 * 8193 / 2);
  for (const AttentionKernel kernel : {AttentionKernel::kFlash2, AttentionKernel::kTiles})
    EXPECT_NEAR(sum("block.1", {.attention = kernel}, Kernel::Kind::kAttention) /
                    sum("block.0", {.attention = kernel}, Kernel::Kind::kAttention) / shown,
                1, 0.06);  // masked halves of tiles at the window's edges
  const Practice rows{.attention = AttentionKernel::kRows};
  EXPECT_LT(sum("block.1", rows, Kernel::Kind::kGemm),
            0.5 * sum("block.0", rows, Kernel::Kind::kGemm));
  EXPECT_EQ(sum("block.0", {}, Kernel::Kind::kStream) - sum("block.2", {}, Kernel::Kind::kStream),
            8192.0 * 2 * 1024 * 2 * 2)
      << "queries and keys are read and written";
  EXPECT_EQ(sum("block.2", {}, Kernel::Kind::kAttention),
            sum("block.0", {}, Kernel::Kind::kAttention));
}

TEST(NodePrices, Bf16IsRefusedWhereThereIsNone) {
  const config::Job half = job_with({}),
                    mixed = job_with({"precision.compute=fp32", "precision.nodes=block.1=bf16"});
  const Gpu v100 = find_gpu("v100-32");
  for (const config::Job& job : {half, mixed})
    EXPECT_EQ(formats::refusal([&] { node_seconds(job, "block.1", Verb::kForward, v100); },
                               ErrorKind::kUsage),
              "gpu v100-32 has no bf16; set precision.compute=fp16, or choose another gpu");
  EXPECT_GT(node_seconds(job_with({"precision.compute=fp16"}), "block.1", Verb::kForward, v100), 0);
}

}  // namespace
}  // namespace trireme::planner::pricing_test
