// optim.groups: which parameters they have, and groups that make no sense.
#include "trireme/model/param_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/config/error_of.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/model/families/describe.h"

namespace trireme::model::param_groups_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

config::Job job_of(const std::string& groups, const std::vector<std::string>& sets = {}) {
  config::Job job;
  job.model = {.layers = 3, .hidden = 32, .heads = 4, .ffn = 48, .vocab = 64, .seq_len = 16};
  for (const std::string& set : sets) config::apply_set(job, set);
  config::apply_set(job, "optim.groups=" + groups);
  return config::resolve(job, 1, {});
}

ParamSpec param(const ModelSpec& spec, const std::string& name) {
  for (const UnitSpec& unit : spec.units)
    for (const ParamSpec& param : unit.params)
      if (param.name == name) return param;
  ADD_FAILURE() << "no parameter " << name;
  return {};
}

TEST(ParamGroups, MultiplyTheRateAndReplaceTheDecayOfWhatTheyMatch) {
  const ModelSpec spec = describe(job_of(
      "[{match: \"*.mlp.*\", lr_mult: 0.5, weight_decay: 0.05}, {match: block.0, lr_mult: 0},"
      " {match: \"embed,transformer.h.[1-2].ln_1.*\", weight_decay: 0.2}]"));
  const auto expect = [&](const std::string& name, double lr, double decay) {
    EXPECT_EQ(param(spec, name).lr, lr) << name;
    EXPECT_EQ(param(spec, name).decay, decay) << name;
  };
  expect("transformer.h.1.mlp.c_fc.weight", 0.5, 0.5);
  expect("transformer.h.1.mlp.c_fc.bias", 0.5, 0.5);  // without a group it has no decay
  expect("transformer.h.1.attn.c_proj.weight", 1, 1);
  expect("transformer.h.1.attn.c_proj.bias", 1, 0);
  // The last group that matches is the only one.
  expect("transformer.h.0.mlp.c_fc.weight", 0, 1);
  expect("transformer.h.0.ln_1.weight", 0, 0);
  expect("transformer.h.2.ln_1.weight", 1, 2);
  expect("transformer.wte.weight", 1, 2);
}

TEST(ParamGroups, AreCounted) {
  const config::Job job =
      job_of("[{match: \"*.mlp.*\", lr_mult: 0.5}, {match: embed, weight_decay: 0}]");
  const ModelSpec spec = describe(job);
  const std::vector<GroupCount> counts = count_groups(job.optim, spec);
  std::int64_t parameters = 0;
  for (const GroupCount& count : counts) parameters += count.parameters;
  EXPECT_EQ(parameters, spec.parameters());
  ASSERT_EQ(counts.size(), 5u);  // of the others and of the first, those with and without decay
  EXPECT_EQ(counts[0].match, "");
  EXPECT_EQ(counts[1].match, "");
  EXPECT_EQ(counts[2].match, "*.mlp.*");
  EXPECT_EQ(counts[2].weight_decay, 0.1);
  EXPECT_EQ(counts[2].parameters, 3 * 2 * 32 * 48);
  EXPECT_EQ(counts[2].tensors, 6);
  EXPECT_EQ(counts[3].parameters, 3 * (32 + 48));
  EXPECT_EQ(counts[3].weight_decay, 0);
  EXPECT_EQ(counts[4].match, "embed");
  EXPECT_EQ(counts[4].lr, 1);
}

TEST(ParamGroups, WithoutEffectAreRefused) {
  const auto refusal = [](const std::string& groups, const std::vector<std::string>& sets = {}) {
    return config::usage_error_of([&] { describe(job_of(groups, sets)); });
  };
  EXPECT_THAT(refusal("[{match: \"*.mpl.c_fc.weight\"}]"),
              AllOf(HasSubstr("optim.groups: \"*.mpl.c_fc.weight\" matches no parameter"),
                    HasSubstr("closest names are transformer.h.0.mlp.c_fc.weight, "
                              "transformer.h.1.mlp.c_fc.weight")));
  EXPECT_THAT(refusal("[{match: \"head,blok.1\", lr_mult: 2}]"),
              AllOf(HasSubstr("\"blok.1\" matches no"), HasSubstr("names are block.1,")));
  EXPECT_THAT(refusal("[{match: \"block.[a]\"}]"), HasSubstr("brackets of \"block.[a]\""));
  EXPECT_THAT(refusal("[{match: \"transformer.h.1.*\"}]", {"model.frozen=block.*"}),
              HasSubstr("matches frozen parameters only, such as transformer.h.1."));
  EXPECT_THAT(refusal("[{match: block.1, lr_mult: 2}, {match: \"*\", lr_mult: 3}]"),
              HasSubstr("every parameter that \"block.1\" matches belongs to a later group"));
  EXPECT_THAT(refusal("[{match: head, weight_decay: 0.1}]", {"optim.weight_decay=0"}),
              HasSubstr("weight_decay=0.1, a multiple of optim.weight_decay=0"));
  EXPECT_NO_THROW(describe(job_of("[{match: \"*\"}]", {"model.frozen=block.*"})));
}

}  // namespace
}  // namespace trireme::model::param_groups_test
