// Made-up samples: functions of their numbers, with labels and captions that say what is to be seen.
#include "trireme/config/synthetic.h"

#include <ATen/ops/cat.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>
#include <map>
#include <set>

#include "trireme/base/error.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/data/loaders/samples/synthetic.h"
#include "trireme/data/loaders/samples/synthetic_images.h"

namespace trireme::loaders::synthetic_test {
namespace {

config::Job job_of(const std::vector<std::string>& sets) {
  config::Job job;
  for (const char* set :
       {"run.global_batch=8", "run.micro_batch=8", "data.samples=100", "data.validation=0.1"})
    config::apply_set(job, set);
  for (const std::string& set : sets) config::apply_set(job, set);
  return config::resolve(job, 1, config::synthetic_source(job.data.source)->facts);
}

config::Job stripes_job(const std::vector<std::string>& more = {}) {
  std::vector<std::string> sets = {"model.family=vit", "data.source=stripes"};
  sets.insert(sets.end(), more.begin(), more.end());
  return job_of(sets);
}

config::Job scenes_job(const std::vector<std::string>& more = {}) {
  std::vector<std::string> sets = {"model.family=clip", "data.source=scenes", "model.seq_len=60"};
  sets.insert(sets.end(), more.begin(), more.end());
  return job_of(sets);
}

TEST(Draws, AreOfTheirDistribution) {
  Draws draws(1, 2);
  double sum = 0, squares = 0;
  constexpr int kDraws = 20000;
  std::map<std::int64_t, int> seen;
  for (int i = 0; i < kDraws; ++i) {
    const double x = draws.normal();
    sum += x;
    squares += x * x;
    ++seen[draws.below(5)];
    const double u = draws.uniform(2, 3);
    EXPECT_TRUE(u >= 2 && u < 3);
  }
  EXPECT_NEAR(sum / kDraws, 0, 4 / std::sqrt(kDraws));
  EXPECT_NEAR(squares / kDraws, 1, 6 / std::sqrt(kDraws));
  ASSERT_EQ(seen.size(), 5u);
  for (const auto& [value, count] : seen) EXPECT_NEAR(count, kDraws / 5, 250) << value;
  EXPECT_EQ(Draws(3, 4).normal(), Draws(3, 4).normal());
  EXPECT_NE(Draws(3, 4).normal(), Draws(3, 5).normal());
  EXPECT_NE(Draws(3, 4).normal(), Draws(4, 4).normal());
}

TEST(Synthetic, SamplesAreFunctionsOfTheirPlace) {
  for (const config::Job& job : {stripes_job(), scenes_job()}) {
    const Sources sources =
        job.data.source == config::DataSource::kStripes ? open_stripes(job) : open_scenes(job);
    const std::vector<at::Tensor> all = sources.train->batch(92, 16);  // across an epoch's end
    for (std::int64_t i = 0; i < 16; ++i) {
      const std::vector<at::Tensor> one = sources.train->batch(92 + i, 1);
      for (std::size_t part = 0; part < all.size(); ++part)
        EXPECT_TRUE(at::equal(one[part], all[part].narrow(0, i, 1)));
    }
    EXPECT_EQ(sources.train->samples(), 100);
    EXPECT_EQ(sources.train->weight(0, 8), 8);
    EXPECT_EQ(sources.held_out->samples(), 16);  // two whole batches for 10
    EXPECT_EQ(sources.digest, config::digest(*config::synthetic_source(job.data.source)));
  }
}

// Each sample once an epoch, and none of those that are held out.
TEST(Synthetic, HeldOutSamplesAreOthers) {
  const Sources sources = open_stripes(stripes_job());
  std::set<float> pixels;
  for (const at::Tensor& image : sources.train->batch(0, 100)[0].unbind())
    pixels.insert(image.sum().item<float>());
  EXPECT_EQ(pixels.size(), 100u);
  for (const at::Tensor& image : sources.train->batch(100, 100)[0].unbind())
    pixels.insert(image.sum().item<float>());
  EXPECT_EQ(pixels.size(), 100u);
  for (const at::Tensor& image : sources.held_out->batch(0, 16)[0].unbind())
    pixels.insert(image.sum().item<float>());
  EXPECT_EQ(pixels.size(), 116u);
}

TEST(Synthetic, ACountThatFillsNoBatchIsRefused) {
  EXPECT_EQ(synthetic_counts(stripes_job({"data.validation=16"})).held_out, 16);
  EXPECT_THROW(synthetic_counts(stripes_job({"data.validation=5"})), Error);
}

// Half of a pattern's period along an axis turns dark to light; its class says along which.
TEST(Stripes, LabelsAreWhatIsToBeSeen) {
  const std::vector<at::Tensor> batch = open_stripes(stripes_job()).train->batch(0, 64);
  std::set<std::int64_t> seen;
  for (std::int64_t sample = 0; sample < 64; ++sample) {
    const at::Tensor image = batch[0][sample][1][0].to(at::kDouble);
    const auto repeats = [&](std::int64_t down, std::int64_t right) {
      const at::Tensor moved = image.roll({-down, -right}, {0, 1});
      const at::Tensor inner = (image * moved).slice(0, 0, 28).slice(1, 4, 28);
      return inner.mean().item<double>() / image.pow(2).mean().item<double>();
    };
    const auto label = static_cast<Pattern>(batch[1][sample].item<std::int64_t>());
    seen.insert(static_cast<std::int64_t>(label));
    EXPECT_NEAR(repeats(0, 2), label == Pattern::kRows ? 1 : -1, 0.1);
    EXPECT_NEAR(repeats(2, 0), label == Pattern::kColumns ? 1 : -1, 0.1);
    EXPECT_NEAR(repeats(2, 2), label == Pattern::kRows || label == Pattern::kColumns ? -1 : 1, 0.1);
    const double rises = repeats(1, -1), falls = repeats(1, 1);
    EXPECT_EQ(rises > 0.9, label == Pattern::kRising);
    EXPECT_EQ(falls > 0.9, label == Pattern::kFalling);
    EXPECT_NEAR(image.mean().item<double>(), 0, 0.1);  // no mean tells
  }
  EXPECT_EQ(seen.size(), static_cast<std::size_t>(kPatterns));
}

TEST(Stripes, ClipsRepeatTheirFrame) {
  const std::vector<at::Tensor> batch =
      open_stripes(stripes_job({"vision.frames=3"})).train->batch(0, 2);
  EXPECT_EQ(batch[0].sizes(), (std::vector<std::int64_t>{2, 3, 3, 32, 32}));
  EXPECT_TRUE(at::equal(batch[0].select(2, 0), batch[0].select(2, 2)));
}

TEST(Scenes, CaptionsSayWhatIsToBeSeen) {
  EXPECT_EQ((Scene{.things = {{.colour = 0, .shape = 1, .quarter = 0},
                              {.colour = 2, .shape = 3, .quarter = 3}}})
                .caption(),
            "red disc top left, blue ring bottom right");
  const config::Job job = scenes_job();
  const Sources sources = open_scenes(job);
  for (std::int64_t number = 0; number < 40; ++number) {
    const std::vector<at::Tensor> sample = scenes(job, std::vector<std::int64_t>{number});
    const Scene made = scene(job.data.seed, number);
    std::string text;
    for (std::int64_t i = 0; i < sample[2].item<std::int64_t>(); ++i)
      text.push_back(static_cast<char>(sample[1][0][i].item<std::int64_t>()));
    EXPECT_EQ(text, made.caption());
    EXPECT_EQ(
        sample[1][0].narrow(0, std::ssize(text), 60 - std::ssize(text)).sum().item<std::int64_t>(),
        0);
    std::set<std::int64_t> taken;
    for (const Thing& thing : made.things) {
      taken.insert(thing.quarter);
      const at::Tensor quarter = sample[0][0]
                                     .select(1, 0)
                                     .narrow(1, thing.quarter / 2 * 16, 16)
                                     .narrow(2, thing.quarter % 2 * 16, 16);
      // Which of red, green and blue shine: each colour's own.
      const std::string bright[] = {"100", "010", "001", "110", "101", "111"};
      for (std::int64_t channel = 0; channel < 3; ++channel)
        EXPECT_EQ(quarter[channel].max().item<float>() > 0.6, bright[thing.colour][channel] == '1');
    }
    for (std::int64_t quarter = 0; quarter < 4; ++quarter)
      if (!taken.contains(quarter)) {
        EXPECT_LT(sample[0][0]
                      .select(1, 0)
                      .narrow(1, quarter / 2 * 16, 16)
                      .narrow(2, quarter % 2 * 16, 16)
                      .max()
                      .item<float>(),
                  0.6);
      }
  }
}

TEST(Scenes, NoCaptionIsLongerThanKnown) {
  std::size_t longest = 0;
  for (std::int64_t number = 0; number < 20000; ++number)
    longest = std::max(longest, scene(1, number).caption().size());
  EXPECT_EQ(static_cast<std::int64_t>(longest) + 1,
            config::synthetic_source(config::DataSource::kScenes)->tokens);
}

}  // namespace
}  // namespace trireme::loaders::synthetic_test
