// The program of a loss of preferences: log-probabilities of tokens, then a loss without parameters.
#include "trireme/model/answers.h"

#include <gtest/gtest.h>

#include "trireme/config/resolve/resolve.h"
#include "trireme/model/families/describe.h"
#include "trireme/model/families/families.h"

namespace trireme::model::answers_test {
namespace {

ModelSpec described(const std::vector<std::string>& sets, int world = 1) {
  config::Job job;
  for (const char* set :
       {"data.source=preferences", "data.path=x.jsonl", "model.seq_len=64", "run.micro_batch=2"})
    config::apply_set(job, set);
  for (const std::string& set : sets) config::apply_set(job, set);
  return describe(config::resolve(job, world, {.vocab = 256}));
}

TEST(Answers, ALossFollowsTheHead) {
  for (const char* family : {"gpt", "llama", "neox"}) {
    const ModelSpec spec = described({std::string("model.family=") + family});
    const plan::Program& program = spec.program;
    const std::size_t nodes = program.nodes.size();
    const plan::Node &head = program.nodes[nodes - 2], &loss = program.nodes[nodes - 1];
    EXPECT_EQ(head.name, "head");
    EXPECT_FALSE(head.loss);
    EXPECT_EQ(loss.name, "preference");
    EXPECT_TRUE(loss.loss);
    EXPECT_TRUE(loss.units.empty());
    const plan::Value& written = program.values[head.writes[0]];
    EXPECT_EQ(written.name, kTokenLosses);
    EXPECT_EQ(written.bytes, 2 * 64 * 4);
    EXPECT_EQ(loss.reads[0], head.writes[0]);
    std::vector<std::string> inputs;
    for (std::size_t i = 0; i < 5; ++i) inputs.push_back(program.values[i].name);
    EXPECT_EQ(inputs,
              (std::vector<std::string>{"tokens", "targets", "positions", "answers", "reference"}));
  }
}

// What a rank keeps and exchanges follows its tokens.
TEST(Answers, RanksOfASequenceExchangeNumbers) {
  const plan::Node one = described({}).program.nodes.back();
  EXPECT_TRUE(one.exchanges.empty());
  EXPECT_EQ(one.saved_bytes, 2 * 64 * 8);
  const plan::Node shared = described({"parallel.cp=2"}, 2).program.nodes.back();
  EXPECT_EQ(shared.saved_bytes, 64 * 8);
  ASSERT_EQ(shared.exchanges.size(), 1u);
  EXPECT_EQ(shared.exchanges[0].bytes, 2 * 3 * 64 * 8);
  const plan::Program half = described({"precision.compute=bf16"}).program;
  EXPECT_EQ(half.values[half.nodes.back().reads[0]].type, DType::kF32);
}

// A policy loss reads the sampler's log-probabilities, advantages and rewards as well.
TEST(Answers, RewardsAreInputs) {
  const plan::Program program = described({"preference.loss=grpo"}).program;
  std::vector<std::string> inputs;
  for (std::size_t i = 3; i < 8; ++i) inputs.push_back(program.values[i].name);
  EXPECT_EQ(inputs,
            (std::vector<std::string>{"answers", "reference", "old", "advantages", "rewards"}));
  const plan::Node& loss = program.nodes.back();
  ASSERT_EQ(loss.reads.size(), 6u);
  for (std::size_t i = 1; i < 6; ++i) EXPECT_EQ(loss.reads[i], static_cast<plan::ValueId>(2 + i));
  const plan::Node shared =
      described({"preference.loss=grpo", "parallel.cp=2"}, 2).program.nodes.back();
  EXPECT_EQ(shared.exchanges[0].bytes, 2 * 6 * 64 * 8);
}

TEST(Answers, MetricsAndLabelAreTheLosses) {
  EXPECT_EQ(described({}).metrics, config::preference_metrics({}));
  EXPECT_EQ(described({"preference.loss=kto"}).metrics.back(), "kl");
  EXPECT_EQ(described({"preference.loss=gspo"}).metrics.back(), "nll");
  EXPECT_EQ(described({"preference.loss=gspo", "preference.kl=0.1"}).metrics.back(), "kl");
  config::Job job;
  job.data.source = config::DataSource::kPreferences;
  job.preference.loss = config::PreferenceLoss::kOrpo;
  EXPECT_EQ(loss_label(job).text(), "orpo loss");
}

}  // namespace
}  // namespace trireme::model::answers_test
