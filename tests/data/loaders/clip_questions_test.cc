// Questions about moving squares: what stands where, and that the answer is what the squares do.
#include <ATen/ops/equal.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <set>

#include "tests/config/error_of.h"
#include "tests/harness/vjepa_jobs.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/data/loaders/samples/clip_source.h"
#include "trireme/families/vlm/keys_checks.h"
#include "trireme/families/vlm/samples_clips.h"

namespace trireme::loaders::clip_questions_test {
namespace {

using config::Family;

// 32 tokens of a clip.
config::Job asking(const std::vector<std::string>& sets = {}) {
  return config::resolve(harness::vjepa_job(Family::kVlm, sets), 1, {});
}

std::vector<std::int64_t> row_of(const at::Tensor& tensor) {
  const at::Tensor row = tensor.contiguous();
  return {row.data_ptr<std::int64_t>(), row.data_ptr<std::int64_t>() + row.numel()};
}

std::string text_of(const at::Tensor& ids) {
  std::string text;
  for (const std::int64_t id : row_of(ids))
    if (id > 0 && id < 256) text += static_cast<char>(id);
  return text;
}

TEST(ClipQuestions, TheAnswerIsTheDirectionOfTheProbesClips) {
  const config::Job probe = config::resolve(harness::vjepa_job(Family::kProbe), 1, {.classes = 8});
  std::vector<std::int64_t> numbers(40);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<std::int64_t>(i);
  const std::vector<at::Tensor> asked = clip_questions(asking(), numbers);
  const std::vector<at::Tensor> labelled = squares(probe, numbers);
  EXPECT_TRUE(at::equal(asked[3], labelled[0]));
  std::set<std::string> answers;
  for (std::int64_t sample = 0; sample < 40; ++sample) {
    const std::string answer = clip_answer(labelled[1][sample].item<std::int64_t>());
    EXPECT_EQ(text_of(asked[0][sample]), kClipQuestion + answer);
    EXPECT_EQ(text_of(asked[1][sample]), answer);
    answers.insert(answer);
  }
  EXPECT_THAT(answers, testing::UnorderedElementsAre("000", "045", "090", "135", "180", "225",
                                                     "270", "315"));
}

TEST(ClipQuestions, TargetsAreTheNextTokensOfAnswersAlone) {
  const std::vector<at::Tensor> inputs = clip_questions(asking(), std::vector<std::int64_t>{3, 9});
  for (std::int64_t sample = 0; sample < 2; ++sample) {
    const auto ids = row_of(inputs[0][sample]), targets = row_of(inputs[1][sample]),
               visual = row_of(inputs[2][sample]);
    std::int64_t asked = 0;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      EXPECT_EQ(visual[i], i < 32 ? sample * 32 + static_cast<std::int64_t>(i) : -1);
      EXPECT_EQ(ids[i] == config::kImageToken, i < 32);
      if (targets[i] < 0) continue;
      ++asked;
      EXPECT_EQ(targets[i], asked == 4 ? config::kEndToken : ids[i + 1]);
    }
    EXPECT_EQ(asked, 4);
  }
}

TEST(ClipQuestions, SamplesDoNotDependOnTheirBatchAndHeldOutOnesAreOthers) {
  const Sources sources = open_sources(asking({"data.samples=64"}), {});
  const auto whole = sources.train->batch(5, 4), one = sources.train->batch(7, 1);
  for (const std::size_t input : {0, 1, 3})
    EXPECT_TRUE(at::equal(whole[input].narrow(0, 2, 1), one[input])) << input;
  EXPECT_EQ(sources.train->weight(5, 4), 16);
  const at::Tensor unseen = sources.held_out->batch(0, 1)[3];
  for (std::int64_t place = 0; place < 64; ++place)
    EXPECT_FALSE(at::equal(sources.train->batch(place, 1)[3], unseen)) << place;
}

TEST(ClipQuestions, TokensOfClipsHaveTimesRowsAndColumns) {
  const auto places = [](const std::vector<std::string>& sets) {
    return clip_questions(asking(sets), std::vector<std::int64_t>{0})[4][0];
  };
  const at::Tensor grid = places({"vlm.mrope=2,1,1"});
  EXPECT_EQ(row_of(grid[16 + 4 + 2]), (std::vector<std::int64_t>{1, 1, 2}));
  EXPECT_EQ(row_of(grid[32]), (std::vector<std::int64_t>{4, 4, 4}));
  EXPECT_EQ(row_of(grid[33]), (std::vector<std::int64_t>{5, 5, 5}));
  const at::Tensor queries =
      places({"vlm.mrope=2,1,1", "projector.kind=perceiver", "projector.queries=5"});
  for (const std::int64_t i : {0, 4, 5, 9})
    EXPECT_EQ(row_of(queries[i]), std::vector<std::int64_t>(3, i));
}

TEST(ClipQuestions, ARowWithoutRoomIsRefused) {
  const std::string error =
      config::usage_error_of([] { open_sources(asking({"model.seq_len=44"}), {}); });
  EXPECT_THAT(error, testing::HasSubstr("model.seq_len=44: a clip's 32 tokens"));
  EXPECT_THAT(error, testing::HasSubstr("set model.seq_len=45"));
  EXPECT_NO_THROW(open_sources(asking({"model.seq_len=45"}), {}));
}

}  // namespace
}  // namespace trireme::loaders::clip_questions_test
