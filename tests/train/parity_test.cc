// Any data-parallel layout trains the same GPT and the same Llama, bit for bit; broken layouts do not.
#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include "tests/harness/layouts.h"
#include "tests/harness/ranks.h"
#include "tests/harness/scratch.h"
#include "trireme/comm/local/local_world.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/model/blocks/build.h"
#include "trireme/model/layout.h"
#include "trireme/optim/adamw.h"
#include "trireme/plan/compile/microbatch.h"

namespace trireme::train::parity_test {
namespace {

using harness::Layout;
using harness::Subject;
using harness::Trace;

constexpr int kSteps = 3;

config::Job job_of(config::Family family, DType compute, int global_micro_batches) {
  config::Job job =
      config::load_job(Path(TRIREME_SOURCE_DIR) / "recipes" /
                       (family == config::Family::kGpt ? "gpt_tiny.yaml" : "llama_tiny.yaml"));
  job.precision.compute = compute;
  job.run.global_batch = global_micro_batches;
  if (family == config::Family::kGpt)
    job.model.dropout = 0.1;  // noise must not know the layout either
  return config::resolve(job, 1, {.vocab = 256});
}

Subject subject_of(const config::Job& job) {
  const std::int64_t seq_len = job.model.seq_len;
  return {.model = [=] { return blocks::build(job); },
          .optimizer =
              [=] {
                return std::make_unique<optim::AdamW>(optim::OptimizerOptions{.weight_decay = 0.1});
              },
          .batch =
              [=](std::int64_t step, std::int64_t micro_batch) {
                const exec::BlockContext key{.seed = 21, .step = step, .micro_batch = micro_batch};
                const auto options = at::TensorOptions().dtype(at::kLong);
                at::Tensor window =
                    at::empty({1, seq_len + 1}, options).random_(0, 256, key.generator(0));
                return std::vector<at::Tensor>{window.narrow(1, 0, seq_len).contiguous(),
                                               window.narrow(1, 1, seq_len).contiguous()};
              },
          .loss_scale = 1.0 / static_cast<double>(job.run.global_batch * seq_len),
          .clip = 1.0};
}

Layout layout_of(const config::Job& job, int replicate, int shard, int zero, int segments = 0) {
  config::Job laid_out = job;
  laid_out.parallel.dp_replicate = replicate;
  laid_out.parallel.dp_shard = shard;
  laid_out.parallel.zero = zero;
  return {.degrees = {.dp_replicate = replicate, .dp_shard = shard},
          .recipe = model::recipe_of(laid_out),
          .segments = segments};
}

struct Case {
  config::Family family;
  DType compute;
};

class Parity : public testing::TestWithParam<Case> {};

TEST_P(Parity, EveryRowOfTheTableGivesTheSameBits) {
  for (int global : {4, 8}) {  // accumulation 8, 4, 2 and 1
    const config::Job job = job_of(GetParam().family, GetParam().compute, global);
    const Subject subject = subject_of(job);
    const Trace reference = run_layout(subject, layout_of(job, 1, 1, 0), kSteps);
    EXPECT_GT(reference.losses[0], 5);  // ln 256 = 5.5
    for (int zero : {0, 1, 2, 3})
      for (const auto& [replicate, shard] :
           std::vector<std::pair<int, int>>{{1, 1}, {1, 2}, {2, 1}, {1, 4}, {2, 2}, {1, 8}}) {
        if (replicate * shard > global) continue;
        const int segments = (zero + shard) % 3;  // for every row and size
        const Layout layout = layout_of(job, replicate, shard, zero, segments);
        EXPECT_EQ(run_layout(subject, layout, kSteps), reference) << layout.name();
      }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Parity,
                         testing::Values(Case{config::Family::kGpt, DType::kF64},
                                         Case{config::Family::kGpt, DType::kF32},
                                         Case{config::Family::kGpt, DType::kBF16},
                                         Case{config::Family::kLlama, DType::kF64},
                                         Case{config::Family::kLlama, DType::kF32},
                                         Case{config::Family::kLlama, DType::kBF16}),
                         [](const auto& info) {
                           return fmt::format(
                               "{}_{}", info.param.family == config::Family::kGpt ? "gpt" : "llama",
                               name(info.param.compute));
                         });

TEST(ParityOfRanks, ThatAreProcessesAndThreadsAgree) {
  const config::Job job = job_of(config::Family::kGpt, DType::kF32, 4);
  const Subject subject = subject_of(job);
  const Trace reference = run_layout(subject, layout_of(job, 1, 1, 0), kSteps);
  for (int zero : {0, 1, 2, 3}) {
    const Layout layout = layout_of(job, zero == 3 ? 2 : 1, 2, zero);
    Trace trace;
    harness::run_ranks(harness::Backend::kGloo, mesh::Mesh(layout.degrees).world(), 60,
                       [&](comm::World& world) {
                         Trace mine = run_rank(subject, layout, kSteps, world);
                         if (world.rank() == 0) trace = std::move(mine);
                       });
    EXPECT_EQ(trace, reference) << layout.name();
  }
}

TEST(ParityOfRanks, ThreeRanksStayWithinRounding) {
  for (config::Family family : {config::Family::kGpt, config::Family::kLlama}) {
    const config::Job job = job_of(family, DType::kF64, 6);
    const Subject subject = subject_of(job);
    const Trace reference = run_layout(subject, layout_of(job, 1, 1, 0), kSteps);
    for (int zero : {0, 1})
      EXPECT_LT(
          harness::distance(reference, run_layout(subject, layout_of(job, 1, 3, zero), kSteps)),
          1e-12);
  }
}

// Where every micro-batch is reduced the tree is one for any number of ranks and of micro-batches.
TEST(ParityOfRanks, AnyNumberOfShardsHasTheBitsOfOne) {
  for (DType compute : {DType::kF64, DType::kF32, DType::kBF16}) {
    const config::Job job = job_of(config::Family::kGpt, compute, 12);
    const Subject subject = subject_of(job);
    const Trace reference = run_layout(subject, layout_of(job, 1, 1, 0), kSteps);
    for (int zero : {2, 3})
      for (int ranks : {2, 3, 4, 6}) {
        const Layout layout = layout_of(job, 1, ranks, zero);
        EXPECT_EQ(run_layout(subject, layout, kSteps), reference) << layout.name();
      }
  }
}

// In groups, all layouts whose ranks have multiples of them; and another order than without.
TEST(ParityOfRanks, GroupsHaveTheSameBitsWhereRanksHaveMultiplesOfThem) {
  for (DType compute : {DType::kF32, DType::kBF16}) {
    config::Job job = job_of(config::Family::kGpt, compute, 16);
    const Subject subject = subject_of(job);
    const Trace whole = run_layout(subject, layout_of(job, 1, 1, 0), kSteps);
    job.precision.group = 4;
    const Trace reference = run_layout(subject, layout_of(job, 1, 1, 0), kSteps);
    EXPECT_NE(reference, whole);
    for (int zero : {0, 1, 2, 3})
      for (const auto& [replicate, shard] : std::vector<std::pair<int, int>>{{1, 2}, {2, 2}}) {
        const Layout layout = layout_of(job, replicate, shard, zero, (zero + shard) % 3);
        ASSERT_EQ(layout.recipe.group, 4);
        EXPECT_EQ(run_layout(subject, layout, kSteps), reference) << layout.name();
      }
  }
}

TEST(ParityOfRanks, SixteenMicroBatchesOnTwoRanksInGroupsOfSixteen) {
  config::Job job = job_of(config::Family::kGpt, DType::kF32, 32);
  job.precision.group = 16;
  const Subject subject = subject_of(job);
  const Trace reference = run_layout(subject, layout_of(job, 1, 1, 0), 1);
  for (int zero : {1, 3}) {
    const Layout layout = layout_of(job, 1, 2, zero);
    EXPECT_EQ(run_layout(subject, layout, 1), reference) << layout.name();
  }
}

// ZeRO-1 and 2 gather stepped parameters at the head of the next step; an evaluation in between sees them too.
TEST(ParityOfRanks, EvaluationBetweenStepsSeesWhatWasStepped) {
  const config::Job job = job_of(config::Family::kGpt, DType::kF32, 4);
  const Subject subject = subject_of(job);
  const auto losses = [&](int ranks, int zero) {
    const Layout layout = layout_of(job, 1, ranks, zero);
    std::vector<double> found;
    comm::run_local_ranks(ranks, 60, [&](comm::World& world) {
      const auto optimizer = subject.optimizer();
      exec::Session session(subject.model(),
                            {.mesh = mesh::Mesh(layout.degrees),
                             .recipe = layout.recipe,
                             .seed = subject.seed,
                             .scratch = harness::open_scratch},
                            world, *optimizer);
      for (int step = 0; step < kSteps; ++step) {
        exec::StepArgs args{
            .step = step,
            .loss_scale = subject.loss_scale,
            .update = {.lr = 1e-2, .step = step + 1},
            .load = [&](int mb) {
              return subject.batch(
                  step, plan::micro_batch_id(session.plan().mesh, layout.recipe, world.rank(), mb));
            }};
        const double trained = session.step(args).loss, evaluated = session.evaluate(args).loss;
        if (world.rank() == 0) found.insert(found.end(), {trained, evaluated});
      }
    });
    return found;
  };
  const std::vector<double> reference = losses(1, 0);
  for (int zero : {1, 2, 3}) EXPECT_EQ(losses(2, zero), reference) << zero;
}

// Each of these is a bug that parity must see, by far more than rounding.
TEST(ParityControls, BrokenRunsAreFarOff) {
  const config::Job job = job_of(config::Family::kLlama, DType::kF64, 4);
  const Subject subject = subject_of(job);
  const Trace reference = run_layout(subject, layout_of(job, 1, 1, 0), kSteps);
  const Layout layout = layout_of(job, 1, 2, 1);
  constexpr double kHundredTolerances = 100 * 1e-12;

  Subject no_mean = subject;  // a missing 1/n
  no_mean.loss_scale *= 2;
  EXPECT_GT(harness::distance(reference, run_layout(no_mean, layout, kSteps)), kHundredTolerances);

  Subject one_rank_only = subject;  // as if the other rank's gradients were not reduced
  one_rank_only.batch = [=](std::int64_t step, std::int64_t micro_batch) {
    return subject.batch(step, micro_batch % 2);
  };
  EXPECT_GT(harness::distance(reference, run_layout(one_rank_only, layout, kSteps)),
            kHundredTolerances);

  Subject other_noise = subject;
  other_noise.seed = 2;
  EXPECT_GT(harness::distance(reference, run_layout(other_noise, layout, kSteps)),
            kHundredTolerances);

  // A swapped shard: the states of two halves of a unit change places.
  Trace swapped = run_layout(subject, layout, kSteps);
  EXPECT_EQ(swapped, reference);
  std::vector<double>& state = swapped.states[1];
  std::rotate(state.begin(), state.begin() + static_cast<std::ptrdiff_t>(state.size() / 2),
              state.end());
  EXPECT_GT(harness::distance(reference, swapped), kHundredTolerances);
}

}  // namespace
}  // namespace trireme::train::parity_test
