// From recompute.* to nodes that run again: what every key changes, and what is refused.
#include "trireme/model/account/recompute.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "trireme/base/error.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/model/families/describe.h"
#include "trireme/model/layout.h"
#include "trireme/plan/check/validate.h"
#include "trireme/plan/compile/recompute.h"
#include "trireme/plan/compile/recompute_search.h"
#include "trireme/plan/memory.h"
#include "trireme/plan/passes/compile.h"
#include "trireme/plan/plan.h"

namespace trireme::model::recompute_test {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using Sets = std::vector<std::string>;

// embed, eight blocks, head.
config::Job eight_blocks(const Sets& sets) {
  config::Job job;
  for (const char* set : {"model.layers=8", "run.global_batch=16", "run.micro_batch=2",
                          "parallel.dp_shard=1", "model.seq_len=64"})
    config::apply_set(job, set);
  for (const std::string& set : sets) config::apply_set(job, set);
  return config::resolve(job, job.parallel.pp * job.parallel.tp * job.parallel.cp, {.vocab = 256});
}

plan::Program program(const Sets& sets) { return describe(eight_blocks(sets)).program; }

std::string text(const Sets& sets) { return plan::recomputation_text(program(sets)); }

Sets operator+(Sets a, const Sets& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::vector<int> segments(const Sets& sets) {
  std::vector<int> all;
  for (const plan::Node& node : program(sets).nodes) all.push_back(node.segment);
  return all;
}

std::string no_program(const Sets& sets, ErrorKind kind = ErrorKind::kUsage) {
  try {
    program(sets);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind);
    return error.what();
  }
  return "";
}

TEST(RecomputePolicy, ChoosesNodes) {
  EXPECT_EQ(text({}), "");
  // An embedding has nothing to run again, but may keep where its rows lie.
  for (const char* layout : {"parallel.tp=1", "parallel.tp=2", "parallel.cp=2"}) {
    SCOPED_TRACE(layout);
    EXPECT_THAT(segments({layout, "recompute.policy=full"}),
                ElementsAre(-1, 0, 1, 2, 3, 4, 5, 6, 7, -1));
    EXPECT_THAT(segments({layout, "recompute.policy=full:3"}),
                ElementsAre(-1, 0, 0, 0, 1, 1, 1, 2, 2, -1));
    EXPECT_THAT(segments({layout, "recompute.policy=full", "recompute.nodes=block.[0-1]"}),
                ElementsAre(-1, 0, 1, -1, -1, -1, -1, -1, -1, -1));
  }
  EXPECT_GT(program({"parallel.tp=2"}).nodes[0].saved_bytes, 0);
  EXPECT_EQ(text({"recompute.policy=selective"}), "norms in 8, attention in 8");
  EXPECT_EQ(text({"recompute.policy=selective", "recompute.parts=mlp,logits"}),
            "mlp in 8, logits in 1");
  EXPECT_EQ(text({"recompute.logits=true"}), "logits in 1");
  EXPECT_EQ(text({"recompute.policy=full", "recompute.logits=true"}),
            "8 of 10 nodes whole, logits in 1");
}

TEST(RecomputePolicy, TouchesOnlyNamedNodes) {
  EXPECT_THAT(segments({"recompute.policy=full", "recompute.nodes=block.[2-3],block.7"}),
              ElementsAre(-1, -1, -1, 0, 1, -1, -1, -1, 2, -1));
  EXPECT_EQ(text({"recompute.policy=selective", "recompute.nodes=block.0,head"}),
            "norms in 1, attention in 1");
}

TEST(RecomputePolicy, SegmentsStayOnTheirStage) {
  const plan::Program staged =
      program({"parallel.pp=2", "parallel.stages=4,6", "recompute.policy=full:4"});
  std::vector<int> all;
  for (const plan::Node& node : staged.nodes) all.push_back(node.segment);
  EXPECT_THAT(all, ElementsAre(-1, 0, 0, 0, 1, 1, 1, 1, 2, -1));
  EXPECT_NO_THROW(plan::check_program(staged));
}

// What runs again costs time, which stages share.
TEST(RecomputePolicy, MovesTheCuts) {
  const auto first_stage = [](const Sets& sets) {
    const plan::Program staged = program(sets);
    return std::ranges::count(staged.nodes, 0, &plan::Node::stage);
  };
  // Twice eight blocks with a third more to do, and a head.
  EXPECT_LT(first_stage({"parallel.pp=2", "model.layers=16", "recompute.policy=full",
                         "recompute.nodes=block.[0-7]"}),
            first_stage({"parallel.pp=2", "model.layers=16"}));
}

// Blocks whose norms follow their branches keep nothing of a part that they have.
TEST(RecomputePolicy, LeavesPartsAloneThatKeepNothing) {
  const Sets after = {"model.family=llama", "llama.norms=after", "recompute.policy=selective"};
  EXPECT_EQ(no_program(after), "");
  EXPECT_EQ(no_program(after + Sets{"recompute.parts=norms,attention,mlp"}), "");
  EXPECT_THAT(no_program(after + Sets{"recompute.parts=norms"}),
              HasSubstr("no chosen node keeps a part \"norms\"; there are attention, logits, mlp"));
}

TEST(RecomputePolicy, RefusesWhatIsNotThere) {
  EXPECT_THAT(no_program({"recompute.policy=full", "recompute.nodes=blok.*"}),
              HasSubstr("recompute.nodes=blok.*: \"blok.*\" matches none of the 10 names embed"));
  EXPECT_THAT(no_program({"recompute.policy=full", "recompute.nodes=head"}),
              HasSubstr("none of these keeps an activation that full recomputation could free;"));
  const Sets only_head = {"model.frozen=embed,block.*", "model.tied=false"};
  EXPECT_THAT(no_program(only_head + Sets{"recompute.policy=full"}),
              HasSubstr("recompute.policy=full: none of the model's nodes keeps an activation"));
  EXPECT_THAT(no_program(only_head + Sets{"recompute.policy=selective"}),
              HasSubstr("no chosen node keeps a part \"norms\"; there are logits"));
  EXPECT_THAT(
      no_program(only_head + Sets{"recompute.policy=selective", "recompute.nodes=block.*"}),
      HasSubstr("recompute.nodes=block.*: none of these keeps a part that it could recompute;"));
  EXPECT_THAT(
      no_program({"recompute.policy=selective", "recompute.parts=norms,gelu"}),
      HasSubstr("no chosen node keeps a part \"gelu\"; there are attention, logits, mlp, norms"));
  EXPECT_THAT(no_program({"recompute.policy=selective", "recompute.parts=logits",
                          "recompute.nodes=block.*"}),
              HasSubstr("no chosen node keeps a part \"logits\""));
}

std::vector<std::int64_t> peaks(const Sets& sets) {
  const config::Job resolved = eight_blocks(sets);
  const ModelSpec model = describe(resolved);
  const plan::PlanSet plan = plan::compile(model.program, mesh_of(resolved), recipe_of(resolved),
                                           grid_of(resolved, model));
  plan::validate(plan);
  std::vector<std::int64_t> all;
  for (int rank = 0; rank < plan.mesh.world(); ++rank)
    all.push_back(plan::memory_account(plan, rank).peak_total);
  return all;
}

std::int64_t peak(const Sets& sets) { return std::ranges::max(peaks(sets)); }

TEST(RecomputePolicy, AutoFitsAnyBudgetAtLeastCost) {
  const double forward = plan::recomputation_cost(program({"recompute.policy=full"}));
  for (const Sets& layout :
       {Sets{}, Sets{"parallel.pp=2"}, Sets{"parallel.pp=2", "parallel.schedule=zb_h1"},
        Sets{"parallel.tp=2", "model.family=llama"}}) {
    SCOPED_TRACE(testing::PrintToString(layout));
    const std::int64_t all = peak(layout);
    const std::int64_t least =
        peak(layout + Sets{"recompute.policy=full", "recompute.logits=true"});
    double before = -1;
    for (int step = 4; step >= 0; --step) {
      const std::int64_t budget = least + (all - least) * step / 4;
      const Sets sets =
          layout + Sets{"recompute.policy=auto", fmt::format("recompute.memory={}", budget)};
      EXPECT_LE(peak(sets), budget);
      const double cost = plan::recomputation_cost(program(sets));
      EXPECT_GE(cost, before);  // less memory is never cheaper
      if (step == 4) {
        EXPECT_EQ(cost, 0);
      }
      before = cost;
    }
    EXPECT_GT(before, 0);
    EXPECT_LE(before, 1.5 * forward);
  }
  const Sets tight = {
      "recompute.policy=auto",
      fmt::format("recompute.memory={}", (peak({}) + peak({"recompute.policy=full"})) / 2)};
  EXPECT_THAT(text(tight), HasSubstr("norms in"));
  EXPECT_EQ(text(tight + Sets{"recompute.nodes=block.[0-7]"}).find("logits"), std::string::npos);
}

TEST(RecomputePolicy, AutoShowsTheArithmeticWhereNothingFits) {
  const std::string message =
      no_program({"recompute.policy=auto", "recompute.memory=1MiB", "model.hidden=128"},
                 ErrorKind::kOutOfMemory);
  EXPECT_THAT(message, HasSubstr("recompute.memory=1MiB: no choice of recomputed nodes fits"));
  EXPECT_THAT(message, HasSubstr("optimizer "));
  EXPECT_THAT(message, HasSubstr("smaller micro-batches"));
}

// Exit code 6 is for that alone.
TEST(RecomputePolicy, AutoLeavesOtherMistakesAsTheyAre) {
  const std::string message =
      no_program({"recompute.policy=auto", "recompute.memory=1GiB", "offload.optimizer=nvme:1e-6"});
  EXPECT_TRUE(message.starts_with("offload.optimizer=nvme:1e-06 is less")) << message;
}

// The search begins where nothing runs again, so that nothing leaves either; where it ends, something does.
TEST(RecomputePolicy, AutoChoosesWithActivationsThatLeave) {
  const Sets away = {"offload.activations=nvme"};
  const std::int64_t budget = peak(away + Sets{"recompute.policy=full"});
  EXPECT_LT(budget, peak({"recompute.policy=full"}));
  const Sets tight =
      away + Sets{"recompute.policy=auto", fmt::format("recompute.memory={}", budget)};
  EXPECT_LE(peak(tight), budget);
  const config::Job resolved = eight_blocks(tight);
  const ModelSpec model = describe(resolved);
  EXPECT_NO_THROW(plan::check_activations_leave(plan::compile(
      model.program, mesh_of(resolved), recipe_of(resolved), grid_of(resolved, model))));
}

// What waits in host memory is in the memory of a rank, if that is a CPU.
TEST(RecomputePolicy, AutoCountsHostMemoryOfACpu) {
  const Sets offload = {"offload.optimizer=host", "model.hidden=128"};
  const std::int64_t all = peak(offload);
  const Sets tight =
      offload + Sets{"recompute.policy=auto", fmt::format("recompute.memory={}", all - 1)};
  EXPECT_LT(peak(tight), all);
  EXPECT_NE(text(tight), "");
  const Sets cuda = {"run.device=cuda"};
  EXPECT_EQ(text(tight + cuda), "");
  EXPECT_THAT(no_program(offload + Sets{"recompute.policy=auto", "recompute.memory=1MiB"},
                         ErrorKind::kOutOfMemory),
              HasSubstr(" + host "));
}

}  // namespace
}  // namespace trireme::model::recompute_test
