// Steps that overflow: skipped on every rank alike, as if their batch had not been there.
#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/formats/scratch.h"
#include "tests/harness/layouts.h"
#include "trireme/base/error.h"
#include "trireme/checkpoint/checkpoint.h"
#include "trireme/comm/local/local_world.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/data/loaders/tokens/random_tokens.h"
#include "trireme/model/blocks/build.h"
#include "trireme/model/layout.h"
#include "trireme/optim/adamw.h"
#include "trireme/train/job_session.h"

namespace trireme::train::loss_scale_test {
namespace {

using harness::Layout;
using harness::Subject;
using harness::Trace;

// Leaves what a block writes as it is, but of one micro-batch of one step its gradient overflows every type, or what it
// writes is no number.
class Planted : public exec::Block {
 public:
  Planted(std::unique_ptr<exec::Block> inner, std::int64_t step, bool gradient)
      : inner_(std::move(inner)), step_(step), gradient_(gradient) {}
  void bind(std::vector<at::Tensor> params) override { inner_->bind(std::move(params)); }
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs,
                                  const exec::BlockContext& context) override {
    std::vector<at::Tensor> out = inner_->forward(inputs, context);
    if (context.step != step_ || context.micro_batch != 1) return out;
    if (!gradient_) return {out[0] * NAN};
    constexpr double kLarge = 3e4;  // in fp16's range; to its tenth power out of fp32's
    for (int i = 0; i < 10; ++i) out[0] = out[0] + (out[0] - out[0].detach()) * kLarge;
    return out;
  }

 private:
  std::unique_ptr<exec::Block> inner_;
  std::int64_t step_;
  bool gradient_;
};

config::Job job_of(DType compute, int pp = 1) {
  config::Job job = config::load_job(Path(TRIREME_SOURCE_DIR) / "recipes" / "gpt_tiny.yaml");
  job.precision.compute = compute;
  job.run.global_batch = 4;
  job.model.dropout = 0;
  job.parallel.pp = pp;
  return config::resolve(job, pp, {.vocab = 256});
}

Layout layout_of(const config::Job& job, int replicate, int shard, int zero) {
  config::Job laid_out = job;
  laid_out.parallel.dp_replicate = replicate;
  laid_out.parallel.dp_shard = shard;
  laid_out.parallel.zero = zero;
  return {.degrees = {.pp = job.parallel.pp, .dp_replicate = replicate, .dp_shard = shard},
          .recipe = model::recipe_of(laid_out)};
}

constexpr std::int64_t kBad = 2, kSteps = 5;

enum class Plant { kNothing, kGradient, kForward };

// With something planted in step kBad; else without the batch of that step.
Subject subject_of(const config::Job& job, Plant plant, std::int64_t hysteresis) {
  const std::int64_t seq_len = job.model.seq_len;
  return {
      .model =
          [=] {
            exec::Model model = blocks::build(job);
            if (plant != Plant::kNothing)
              model.blocks[1] = std::make_unique<Planted>(std::move(model.blocks[1]), kBad,
                                                          plant == Plant::kGradient);
            return model;
          },
      .optimizer = [=] { return std::make_unique<optim::AdamW>(optim::OptimizerOptions{}); },
      .batch =
          [=](std::int64_t step, std::int64_t micro_batch) {
            if (plant == Plant::kNothing && step >= kBad) ++step;
            return loaders::random_tokens(4 * step + micro_batch, 1, seq_len, 256, false);
          },
      .loss_scale = 1.0 / static_cast<double>(4 * seq_len),
      .clip = 1.0,
      .loss_scaler = optim::LossScaleOptions{.start = 1024, .window = 3, .hysteresis = hysteresis}};
}

TEST(Overflow, IsAsIfTheBatchHadNotBeenThere) {
  for (DType compute : {DType::kF16, DType::kBF16, DType::kF32}) {
    const config::Job job = job_of(compute);
    const Trace reference =
        run_layout(subject_of(job, Plant::kNothing, 2), layout_of(job, 1, 1, 0), kSteps - 1);
    EXPECT_EQ(reference.scales, (std::vector<double>{1024, 1024, 1024, 2048}));
    const auto expect_same = [&](const config::Job& laid_out, const Layout& layout, Plant plant) {
      SCOPED_TRACE(fmt::format("{} {}", name(compute), layout.name()));
      const Trace trace = run_layout(subject_of(laid_out, plant, 2), layout, kSteps);
      EXPECT_EQ(trace.states, reference.states);
      // A window of three ends with the step after the overflow's second.
      EXPECT_EQ(trace.scales, (std::vector<double>{1024, 1024, 1024, 1024, 1024}));
      EXPECT_EQ(trace.skipped, (std::vector<bool>{false, false, true, false, false}));
    };
    // fp16 numbers below the normal range depend on the scale, which is not raised in step 3 here.
    if (compute == DType::kF16) {
      Subject quiet = subject_of(job, Plant::kNothing, 2);
      quiet.loss_scaler->window = 100;
      const Trace still = run_layout(quiet, layout_of(job, 1, 1, 0), kSteps - 1);
      Subject planted = subject_of(job, Plant::kGradient, 2);
      planted.loss_scaler->window = 100;
      for (const auto& [replicate, shard, zero] :
           std::vector<std::tuple<int, int, int>>{{1, 1, 0}, {1, 2, 0}, {1, 2, 3}, {2, 1, 0}})
        EXPECT_EQ(run_layout(planted, layout_of(job, replicate, shard, zero), kSteps).states,
                  still.states)
            << replicate << shard << zero;
      const config::Job two = job_of(compute, 2);
      Subject over_two = subject_of(two, Plant::kGradient, 2);
      over_two.loss_scaler->window = 100;
      Trace over = run_layout(over_two, layout_of(two, 1, 1, 0), kSteps);
      over.losses.clear();  // one more than of the run without the batch
      EXPECT_LT(harness::distance(over, still), 0.05);
      continue;
    }
    for (Plant plant : {Plant::kGradient, Plant::kForward})
      for (int zero : {0, 1, 2, 3})
        for (const auto& [replicate, shard] : {std::pair{1, 1}, {1, 2}, {2, 1}, {2, 2}})
          expect_same(job, layout_of(job, replicate, shard, zero), plant);
  }
}

TEST(Overflow, OnAPipelineIsAsIfTheBatchHadNotBeenThere) {
  for (DType compute : {DType::kF16, DType::kF32}) {
    config::Job job = config::load_job(Path(TRIREME_SOURCE_DIR) / "recipes" / "gpt_tiny.yaml");
    job.precision.compute = compute;
    job.run.global_batch = 4;
    job.model.dropout = 0;
    job.model.tied = false;  // whose sums depend on the chunks
    job.parallel.pp = 2;
    job = config::resolve(job, 2, {.vocab = 256});
    const auto run = [&](Plant plant, int steps, int shard, int zero) {
      Subject subject = subject_of(job, plant, 2);
      subject.loss_scaler->window = 100;
      return run_layout(subject, layout_of(job, 1, shard, zero), steps);
    };
    const Trace reference = run(Plant::kNothing, kSteps - 1, 1, 0);
    for (Plant plant : {Plant::kGradient, Plant::kForward})
      for (const auto& [shard, zero] : {std::pair{1, 0}, {2, 1}, {2, 3}})
        EXPECT_EQ(run(plant, kSteps, shard, zero).states, reference.states)
            << name(compute) << shard << zero;
  }
}

// A power of two moves exponents only, also where a step was skipped and the scale lowered.
TEST(LossScale, ChangesNoBitsOfFp32AndBf16) {
  for (DType compute : {DType::kBF16, DType::kF32}) {
    const config::Job job = job_of(compute);
    Subject plain = subject_of(job, Plant::kNothing, 1);
    plain.loss_scaler.reset();
    Subject scaled = subject_of(job, Plant::kNothing, 1);
    scaled.loss_scaler->start = 65536;
    const Trace a = run_layout(plain, layout_of(job, 1, 2, 2), 4);
    const Trace b = run_layout(scaled, layout_of(job, 1, 2, 2), 4);
    EXPECT_EQ(a.states, b.states);
    EXPECT_EQ(a.losses, b.losses);
    EXPECT_EQ(a.grad_norms, b.grad_norms);
    const Trace lowered =
        run_layout(subject_of(job, Plant::kGradient, 1), layout_of(job, 1, 2, 2), 5);
    EXPECT_EQ(lowered.states, a.states);
    EXPECT_EQ(lowered.scales[3], 512);
  }
}

TEST(LossScale, WithoutSkippingAnOverflowEndsTheRun) {
  const config::Job job = job_of(DType::kF32);
  Subject subject = subject_of(job, Plant::kGradient, 1);
  subject.loss_scaler.reset();
  try {
    run_layout(subject, layout_of(job, 1, 2, 1), kSteps);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kNonFinite);
  }
}

struct Steps {
  std::vector<double> losses, scales;
  std::vector<bool> skipped;
  std::vector<TrainState> states;
};

void run_steps(const config::Job& job, JobSession& session, int first, int last, Steps& steps) {
  for (int step = first; step < last; ++step) {
    steps.scales.push_back(session.loss_scale());
    const exec::StepResult result = session.train(step, false, [&](std::int64_t sample) {
      return loaders::random_tokens(sample, job.run.micro_batch, job.model.seq_len, job.model.vocab,
                                    false);
    });
    steps.losses.push_back(result.loss);
    steps.skipped.push_back(result.skipped);
    steps.states.push_back(session.state());
  }
}

// A scale that is far too large comes down, rises again, and does so on from a checkpoint in the middle of a window.
TEST(LossScale, GoesOnFromACheckpoint) {
  config::Job job = job_of(DType::kF16);
  job.run.steps = 14;
  const optim::LossScaleOptions scale{.start = 0x1p40, .window = 4, .factor = 64, .hysteresis = 1};
  formats::Scratch scratch;
  Steps whole, parts;
  std::vector<std::vector<double>> params[2];
  const auto values = [](exec::Session& session) {
    std::vector<std::vector<double>> all;
    for (const exec::StateSlice& slice : session.units().local_slices()) {
      const at::Tensor wide = session.units().read(slice).to(at::kDouble).contiguous();
      all.emplace_back(wide.data_ptr<double>(), wide.data_ptr<double>() + wide.numel());
    }
    return all;
  };
  comm::run_local_ranks(1, 120, [&](comm::World& world) {
    JobSession session(job, world, {}, scale);
    run_steps(job, session, 0, 14, whole);
    params[0] = values(session.session());
  });
  comm::run_local_ranks(1, 120, [&](comm::World& world) {
    JobSession session(job, world, {}, scale);
    run_steps(job, session, 0, 9, parts);
    checkpoint::save(scratch.path(), {.step = 9, .train_state = print(session.state())},
                     session.session().units(), session.session().model().spec.units, world);
  });
  comm::run_local_ranks(1, 120, [&](comm::World& world) {
    JobSession session(job, world, {}, scale);
    const formats::Manifest manifest = checkpoint::load(
        scratch.path() / "step-9", session.session().units(), session.session().model().spec.units);
    session.session().units().refresh();
    session.restore(parse_train_state(manifest.train_state, manifest.step, "manifest"));
    run_steps(job, session, 9, 14, parts);
    params[1] = values(session.session());
  });
  EXPECT_TRUE(whole.skipped[0]);
  EXPECT_EQ(whole.states.back().updates,
            14 - std::count(whole.skipped.begin(), whole.skipped.end(), true));
  EXPECT_NE(whole.scales[9], whole.scales[13]) << "a window ends behind the checkpoint";
  EXPECT_EQ(parts.scales, whole.scales);
  EXPECT_EQ(parts.skipped, whole.skipped);
  EXPECT_EQ(parts.states, whole.states);
  EXPECT_EQ(params[0], params[1]);
  // The rule, from what overflowed.
  optim::LossScaler rule(scale);
  for (std::size_t step = 0; step < whole.scales.size(); ++step) {
    EXPECT_EQ(whole.scales[step], rule.scale()) << step;
    rule.update(whole.skipped[step], static_cast<std::int64_t>(step));
  }
}

TEST(TrainState, PrintsAndParses) {
  const TrainState plain{.updates = 7};
  const TrainState scaled{.updates = 7,
                          .loss_scale = optim::LossScaler::State{
                              .scale = 0.75, .steps = 9, .last_overflow = 8, .hysteresis = 2}};
  EXPECT_EQ(parse_train_state(print(plain), 9, "x"), plain);
  EXPECT_EQ(parse_train_state(print(scaled), 9, "x"), scaled);
  EXPECT_EQ(parse_train_state("{}", 9, "x"), (TrainState{.updates = 9}));
  for (const char* broken :
       {R"({"updates":10})", R"({"updates":-1})", R"({"other":1})",
        R"({"updates":1,"loss_scale":{"scale":0,"steps":1,"last_overflow":-1,"hysteresis":1}})",
        R"({"updates":1,"loss_scale":{"scale":2,"steps":1,"last_overflow":-1,"hysteresis":0}})",
        R"({"updates":1,"loss_scale":{"scale":2}})", "[]"})
    EXPECT_THROW(parse_train_state(broken, 9, "x"), Error) << broken;
}

// Rates and Adam's t go by updates, noise and data by steps.
TEST(JobSession, CountsUpdates) {
  config::Job job = job_of(DType::kF32);
  job.optim.warmup_steps = 10;
  job.run.steps = 20;
  job.optim.decay_steps = 20;
  job.precision.loss_scale = "dynamic";
  comm::run_local_ranks(1, 120, [&](comm::World& world) {
    JobSession session(job, world);
    session.restore({.updates = 4});
    EXPECT_DOUBLE_EQ(session.learning_rate(), job.optim.lr * 5 / 10);
    EXPECT_EQ(session.loss_scale(), 65536);
    session.restore({.updates = 5, .loss_scale = optim::LossScaler::State{.scale = 8}});
    EXPECT_DOUBLE_EQ(session.learning_rate(), job.optim.lr * 6 / 10);
    EXPECT_EQ(session.loss_scale(), 8);
  });
}

// An evaluation has nothing to scale down: its loss is what it is, and the run goes on as with a step.
TEST(LossScale, AnEvaluationThatOverflowsIsNoError) {
  for (const bool dynamic : {true, false}) {
    config::Job job = job_of(DType::kF16);
    if (!dynamic) job.precision.loss_scale = "1024";
    comm::run_local_ranks(1, 60, [&](comm::World& world) {
      JobSession session(job, world);
      exec::Units& units = session.session().units();
      for (const exec::StateSlice& slice : units.local_slices())
        if (slice.kind == "param") units.write(slice, units.read(slice) * 1e4);
      units.refresh();
      const auto evaluate = [&] {
        return session.evaluate(7, 0, [&](std::int64_t first) {
          return loaders::random_tokens(first, job.run.micro_batch, job.model.seq_len,
                                        job.model.vocab, job.data.documents);
        });
      };
      if (dynamic) {
        const exec::StepResult result = evaluate();
        EXPECT_TRUE(result.skipped);
        EXPECT_FALSE(std::isfinite(result.loss));
        return;
      }
      try {
        evaluate();
        ADD_FAILURE() << "evaluated";
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::kNonFinite);
        EXPECT_EQ(std::string(error.what()).find("step 7: "), 0u) << error.what();
      }
    });
  }
}

}  // namespace
}  // namespace trireme::train::loss_scale_test
