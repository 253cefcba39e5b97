// Probes on a user's clips: directions are told apart, segments and views count as they should.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tests/harness/jobs.h"
#include "tests/harness/scratch_directory.h"
#include "tests/harness/vjepa_jobs.h"
#include "trireme/comm/local/local_world.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/data/loaders/samples/synthetic.h"
#include "trireme/data/loaders/source.h"
#include "trireme/data/media/video.h"
#include "trireme/train/job_session.h"

namespace trireme::train::probe_clips_test {
namespace {

// A bright square of 12 pixels that moves by (dx, dy) a frame, over grey.
std::string moving_square(std::int64_t number, int dx, int dy) {
  loaders::Draws draws(7, number);
  const int x = 10 + static_cast<int>(draws.below(13)), y = 10 + static_cast<int>(draws.below(13));
  std::vector<media::Image> frames(4, media::Image(44, 44));
  for (int frame = 0; frame < 4; ++frame) {
    media::Image& image = frames[frame];
    std::ranges::fill(image.rgb, std::uint8_t{90});
    const int left = x + dx * (2 * frame - 3) / 2, top = y + dy * (2 * frame - 3) / 2;
    for (int row = top; row < top + 12; ++row)
      std::fill_n(image.pixel(left, row), 3 * 12, std::uint8_t{250});
  }
  return media::encode_webp(frames, 4, true);
}

// Clips of two classes, one class moving by (dx, dy), the other by (-dx, -dy): 128 to train on, 64 held out.
void write_two_classes(const harness::ScratchDirectory& scratch, int dx, int dy) {
  for (std::int64_t i = 0; i < 192; ++i)
    scratch.write(
        fmt::format("{}/{}/{:03}.webp", i < 128 ? "train" : "val", i % 2 == 0 ? "to" : "fro", i),
        i % 2 == 0 ? moving_square(i, dx, dy) : moving_square(i, -dx, -dy));
}

// Share of held-out clips that a probe tells after training.
double held_out_accuracy(const Path& path) {
  config::Job job = harness::vjepa_job(
      config::Family::kProbe,
      {"data.source=clips", "vision.image=32", "vision.patch=8", "vision.hidden=96",
       "vision.heads=3", "vision.classes=2", "probe.heads=4", "precision.compute=fp32",
       "run.global_batch=16", "run.micro_batch=16", "run.steps=400", "optim.lr=2e-3",
       "optim.warmup_steps=20", "optim.eps=1e-8"});
  job.data.path = path.string();
  job = config::resolve(job, 1, {.classes = 2});
  double accuracy = 0;
  comm::run_local_ranks(1, 600, [&](comm::World& world) {
    JobSession session(job, world);
    const loaders::Sources sources = loaders::open_sources(job, {});
    const auto load_of = [&](const loaders::Source& source) {
      return JobSession::Load(
          [&](std::int64_t first) { return source.batch(first, job.run.micro_batch); },
          [&](std::int64_t first, std::int64_t all) { return source.weight(first, all); });
    };
    const JobSession::Load train = load_of(*sources.train), held_out = load_of(*sources.held_out);
    for (std::int64_t step = 0; step < job.run.steps; ++step) session.train(step, false, train);
    double right = 0, of = 0;
    for (std::int64_t batch = 0; batch * job.run.global_batch < sources.held_out->samples();
         ++batch) {
      const exec::StepResult result = session.evaluate(job.run.steps, batch, held_out);
      right += result.counts.at(0).sum;
      of += result.counts.at(0).of;
    }
    EXPECT_EQ(of, 64);
    accuracy = right / of;
  });
  return accuracy;
}

// Segments are clips of their own in the tower and one sequence in the probe, under every layout.
TEST(ProbeSegments, TrainAlikeOnEveryLayout) {
  const harness::ScratchDirectory scratch;
  write_two_classes(scratch, 4, 0);
  const auto run = [&](const std::vector<std::string>& layout) {
    config::Job job = harness::vjepa_job(
        config::Family::kProbe, {"data.source=clips", "vision.classes=2", "vision.frames=2",
                                 "probe.clips=[2, 1]", "probe.augment=4"});
    for (const std::string& set : layout) config::apply_set(job, set);
    job.data.path = scratch.path().string();
    return harness::run_job(job, 2);
  };
  const harness::JobTrace one = run({});
  for (const std::vector<std::string>& layout :
       {std::vector<std::string>{"parallel.dp_shard=4", "parallel.zero=3"},
        {"parallel.tp=2"},
        {"parallel.cp=2"},
        {"parallel.pp=2", "run.micro_batch=2"},
        {"run.micro_batch=4"},
        {"recompute.policy=full"}})
    EXPECT_LT(harness::distance(one, run(layout)), 1e-12) << testing::PrintToString(layout);
}

// 5 held-out samples of 3 views in batches of 12 rows: each sample counts once, whatever a micro-batch is.
TEST(ProbeViews, CountEachSampleOnce) {
  const harness::ScratchDirectory scratch;
  write_two_classes(scratch, 4, 0);
  const auto evaluated = [&](const char* micro_batch) {
    config::Job job = harness::vjepa_job(
        config::Family::kProbe,
        {"data.source=clips", "vision.classes=2", "vision.frames=2", "probe.clips=[2, 3]",
         "data.validation=5", "run.global_batch=12", micro_batch});
    job.data.path = scratch.path().string();
    job = config::resolve(job, 1, {.classes = 2});
    exec::StepResult sum;
    double weight = 0;
    comm::run_local_ranks(1, 600, [&](comm::World& world) {
      JobSession session(job, world);
      const loaders::Sources sources = loaders::open_sources(job, {});
      const loaders::Source& samples = *sources.held_out;
      EXPECT_EQ(samples.samples(), 24);
      weight = samples.weight(0, 24);
      for (std::int64_t batch = 0; batch < 2; ++batch) {
        const exec::StepResult result = session.evaluate(0, batch, [&](std::int64_t first) {
          return samples.batch(first, job.run.micro_batch);
        });
        sum.loss += result.loss;
        sum.counts.resize(1);
        sum.counts[0].sum += result.counts.at(0).sum;
        sum.counts[0].of += result.counts.at(0).of;
      }
    });
    EXPECT_EQ(weight, 5);
    EXPECT_EQ(sum.counts[0].of, 5);
    EXPECT_NEAR(sum.loss / weight, std::log(2), 0.5);
    return sum;
  };
  const exec::StepResult all = evaluated("run.micro_batch=12"),
                         few = evaluated("run.micro_batch=3");
  EXPECT_NEAR(all.loss, few.loss, 1e-12);
  EXPECT_EQ(all.counts[0].sum, few.counts[0].sum);
}

TEST(ProbeMotion, LeftIsToldFromRight) {
  const harness::ScratchDirectory scratch;
  write_two_classes(scratch, 4, 0);
  EXPECT_GT(held_out_accuracy(scratch.path()), 0.9);
}

TEST(ProbeMotion, UpIsToldFromDown) {
  const harness::ScratchDirectory scratch;
  write_two_classes(scratch, 0, 4);
  EXPECT_GT(held_out_accuracy(scratch.path()), 0.9);
}

}  // namespace
}  // namespace trireme::train::probe_clips_test
