// Six steps of V-JEPA 2's pretraining against the losses of the official code, which saw the same weights, clips and masks
// in fp64.
#include <gtest/gtest.h>

#include "tests/formats/scratch.h"
#include "tests/harness/needs.h"
#include "trireme/checkpoint/checkpoint.h"
#include "trireme/checkpoint/convert/hugging_face.h"
#include "trireme/comm/local/local_world.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/data/loaders/source.h"
#include "trireme/train/job_session.h"

namespace trireme::train::vjepa_oracle_test {
namespace {

Path oracle() {
  return Path(TRIREME_SOURCE_DIR).parent_path() / "shared" / "data" / "vjepa_oracle";
}

// Of a predictor with so many mask tokens, which begins with the published weights of the oracle.
std::vector<double> losses(int mask_tokens) {
  const formats::Scratch scratch;
  config::Job published = convert::HuggingFaceWeights(oracle()).job();
  published.jepa.mask_tokens = mask_tokens;
  const Path weights = convert::from_hugging_face(convert::HuggingFaceWeights(oracle(), published),
                                                  "", "test", scratch / "weights");
  config::Job job = config::load_job(oracle() / "job.yaml");
  job.model.weights = weights.string();
  job.jepa.mask_tokens = mask_tokens;
  const config::Job resolved = config::resolve(job, 1, {});
  std::vector<double> losses;
  comm::run_local_ranks(1, 120, [&](comm::World& rank) {
    JobSession session(resolved, rank);
    checkpoint::load_weights(weights, session.session().units(),
                             session.session().model().spec.units);
    const auto source = loaders::open_sources(resolved, {}).train;
    const JobSession::Load load = {
        [&](std::int64_t first) { return source->batch(first, resolved.run.micro_batch); },
        [&](std::int64_t first, std::int64_t all) { return source->weight(first, all); }};
    for (int step = 0; step < resolved.run.steps; ++step)
      losses.push_back(session.train(step, false, load).loss);
  });
  return losses;
}

void expect_losses(int mask_tokens, const std::vector<double>& official) {
  const std::vector<double> own = losses(mask_tokens);
  ASSERT_EQ(own.size(), official.size());
  for (std::size_t step = 0; step < own.size(); ++step)
    EXPECT_NEAR(own[step], official[step], 1e-14) << "step " << step + 1;
}

class VjepaOracle : public testing::Test {
 protected:
  void SetUp() override {
    TRIREME_NEEDS("real files", std::filesystem::exists(oracle())
                                    ? std::string()
                                    : std::string("vjepa_oracle is not in ../shared/data, beside "
                                                  "the repository"));
  }
};

// As V-JEPA 2, whose wrapper counts lengths of clips where V-JEPA counts masks.
TEST_F(VjepaOracle, OneMaskTokenIsThatOfVjepa2) {
  expect_losses(1, {.853348026999599, .794335180702233, .749479711283801, .717843168031990,
                    .697505872947508, .681786820848448});
}

TEST_F(VjepaOracle, TwoMaskTokensAreThoseOfVjepa) {
  expect_losses(2, {.869304069736726, .810893805907770, .771013350972623, .740079786662480,
                    .712696099053657, .694316468307581});
}

}  // namespace
}  // namespace trireme::train::vjepa_oracle_test
