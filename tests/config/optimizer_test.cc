// Optimizers and the rest of a job: what does not go together ends in one line that names the keys and a way out.
#include <gmock/gmock.h>

#include "tests/config/error_of.h"
#include "trireme/config/job.h"
#include "trireme/config/resolve/matrix_optimizer.h"
#include "trireme/config/resolve/resolve.h"

namespace trireme::config::optimizer_test {
namespace {

using Sets = std::vector<std::string>;
using ::testing::HasSubstr;

const Sets kMuon = {"optim.name=muon"};
const Sets kGroup = {"optim.groups=[{match: \"block.*\", name: muon}]"};

Job resolved(const Sets& sets, int world) {
  Job job;
  for (const std::string& set : sets) apply_set(job, set);
  return resolve(job, world, {.vocab = 256});
}

std::string refusal(Sets sets, const Sets& more, int world = 1) {
  sets.insert(sets.end(), more.begin(), more.end());
  return usage_error_of([&] { resolved(sets, world); });
}

TEST(Optimizers, MatricesNeedWholeOnesAndWideStates) {
  for (const Sets& muon : {kMuon, kGroup}) {
    EXPECT_THAT(refusal(muon, {"parallel.tp=2"}, 2),
                HasSubstr(" with parallel.tp=2: updates of muon need whole matrices, of which tp "
                          "ranks have parts; set parallel.tp=1, or another optimizer"));
    EXPECT_THAT(refusal(muon, {"optim.states=int8"}), HasSubstr("set optim.states=auto"));
    EXPECT_THAT(refusal(muon, {"precision.compute=bf16", "precision.master=bf16"}),
                HasSubstr(" with precision.master=bf16: products of its updates"));
    EXPECT_THAT(refusal(muon, {"run.device=cuda"}), HasSubstr("run.device=cuda"));
    EXPECT_STREQ(matrix_optimizer(resolved(muon, 1).optim)->key, "muon");
    EXPECT_STREQ(elementwise(resolved(muon, 1).optim).key, "adamw");
  }
  EXPECT_EQ(matrix_optimizer(resolved({}, 1).optim), nullptr);
}

TEST(Optimizers, KeysOfMuonNeedIt) {
  for (const char* set :
       {"optim.momentum=0.9", "optim.newton_schulz=polar", "optim.update_scale=original"}) {
    EXPECT_THAT(refusal({set}, {}),
                HasSubstr(" with optim.name=adamw: it has no effect; set optim.name=muon"));
    for (const Sets& muon : {kMuon, kGroup}) {
      Sets sets = muon;
      sets.emplace_back(set);
      resolved(sets, 1);
    }
  }
}

TEST(Optimizers, AResumeKeepsThoseOfGroups) {
  const Job saved = resolved(kGroup, 1);
  Job now = saved;
  now.optim.groups[0].lr_mult = 2;
  check_resumable(saved, now);
  now.optim.groups[0].name = Optimizer::kLion;
  EXPECT_THAT(usage_error_of([&] { check_resumable(saved, now); }),
              HasSubstr("cannot resume: optim.groups names optimizers of other parameters"));
  now.optim.groups.clear();
  EXPECT_THAT(usage_error_of([&] { check_resumable(saved, now); }), HasSubstr("cannot resume"));
}

TEST(Optimizers, GroupsNameThoseThereAre) {
  EXPECT_THAT(usage_error_of([] {
                Job job;
                apply_set(job, "optim.groups=[{match: \"*\", name: sgd}]");
              }),
              HasSubstr("optim.groups: name=sgd is no optimizer; set one of adamw, lion, muon"));
  Job job;
  apply_set(job, "optim.groups=[{match: \"*\", lr_mult: 2, name: lion}]");
  EXPECT_EQ(job.optim.groups.at(0).name, Optimizer::kLion);
  EXPECT_THAT(print_yaml(job), HasSubstr("name: lion"));
}

}  // namespace
}  // namespace trireme::config::optimizer_test
