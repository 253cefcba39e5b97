#include "trireme/data/loaders/tokens/preference_source.h"

#include <gmock/gmock.h>

#include <numeric>

#include "tests/harness/preferences.h"
#include "trireme/base/error.h"
#include "trireme/data/loaders/tokens/token_loader.h"

namespace trireme::loaders::preference_source_test {
namespace {

using config::Answer;
using config::PreferenceLoss;
using testing::HasSubstr;

class PreferenceSourceTest : public testing::Test {
 protected:
  static config::Job job(std::int64_t seq_len, PreferenceLoss loss = PreferenceLoss::kDpo,
                         const std::string& chat = "phi4_mini") {
    config::Job job;
    job.model.vocab = 256;
    job.model.seq_len = seq_len;
    job.data.source = config::DataSource::kPreferences;
    job.data.chat = chat;
    job.preference.loss = loss;
    return job;
  }
  std::string refusal(const config::Job& job, const std::string& set) {
    try {
      open_preferences(job, directory_ / set, Evaluated::kHeldOut);
    } catch (const Error& error) {
      return error.what();
    }
    return "taken";
  }
  harness::ScratchDirectory directory_;
};

// Every token of an answer is a target once an epoch, with its comparison and its side.
TEST_F(PreferenceSourceTest, AnswersAreMarkedByComparison) {
  const text::Dataset made =
      harness::prepared_preferences(directory_, "set", harness::pairs(20), 4);
  const Sources sources = open_preferences(job(256), directory_ / "set", Evaluated::kHeldOut);
  EXPECT_EQ(sources.train->weight(0, sources.train->samples()), 16);
  EXPECT_EQ(sources.held_out->weight(0, sources.held_out->samples()), 4);
  std::map<Answer, std::int64_t> counts;
  std::int64_t comparisons = 0;
  for (std::int64_t row = 0; row < sources.train->samples(); ++row) {
    const std::vector<at::Tensor> batch = sources.train->batch(row, 1);
    ASSERT_EQ(batch.size(), 5u);
    std::int64_t last = 0;
    for (std::int64_t i = 0; i < 256; ++i) {
      const auto code = batch[3].data_ptr<std::int64_t>()[i];
      EXPECT_EQ(code != 0, batch[1].data_ptr<std::int64_t>()[i] != kIgnoredTarget);
      if (code == 0) continue;
      ++counts[static_cast<Answer>(code % config::kAnswers)];
      last = code / config::kAnswers + 1;
    }
    EXPECT_EQ(sources.train->weight(row, 1), last);
    comparisons += last;
  }
  EXPECT_EQ(comparisons, 16);
  std::vector<std::int32_t> marks(static_cast<std::size_t>(made.train_loss->tokens()));
  made.train_loss->read(0, std::span<std::int32_t>(marks));
  for (const Answer answer : {Answer::kChosen, Answer::kRejected})
    EXPECT_EQ(counts[answer], std::ranges::count(marks, static_cast<std::int32_t>(answer)));
  EXPECT_EQ(counts.size(), 2u);
}

// The prompt of the chosen answer has a cross-entropy as well.
TEST_F(PreferenceSourceTest, OrpoReadsChosenPrompts) {
  harness::prepared_preferences(directory_, "set", harness::pairs(1));
  const Sources sources =
      open_preferences(job(128, PreferenceLoss::kOrpo), directory_ / "set", Evaluated::kHeldOut);
  const std::vector<at::Tensor> batch = sources.train->batch(0, 1);
  const auto *target = batch[1].data_ptr<std::int64_t>(),
             *token = batch[0].data_ptr<std::int64_t>(),
             *answer = batch[3].data_ptr<std::int64_t>();
  EXPECT_EQ(answer[0], config::answer_code(0, Answer::kPrompt));
  EXPECT_EQ(target[0], token[1]);
  std::int64_t second = 1;
  while (batch[2].data_ptr<std::int64_t>()[second] != 0) ++second;
  EXPECT_EQ(answer[second], 0);  // the rejected one's prompt
}

TEST_F(PreferenceSourceTest, ReadsTheReferenceOfEachToken) {
  const text::Dataset made =
      harness::prepared_preferences(directory_, "set", harness::pairs(12), 3);
  std::vector<double> train(static_cast<std::size_t>(made.train.tokens())),
      val(static_cast<std::size_t>(made.val.tokens()));
  std::iota(train.begin(), train.end(), 1000);
  std::iota(val.begin(), val.end(), 5000);
  write_reference(directory_ / "reference", {.data = made.digest}, train, val);
  config::Job with = job(256);
  with.preference.reference = (directory_ / "reference").string();
  const Sources sources = open_preferences(with, directory_ / "set", Evaluated::kHeldOut);
  for (const auto& [source, first] :
       {std::pair{sources.train.get(), 1000}, {sources.held_out.get(), 5000}}) {
    const std::vector<at::Tensor> batch = source->batch(0, source->samples());
    const at::Tensor places =
        dynamic_cast<const PreferenceSource&>(*source).places(0, source->samples());
    std::int64_t found = 0;
    for (std::int64_t i = 0; i < places.numel(); ++i) {
      const std::int64_t place = places.data_ptr<std::int64_t>()[i];
      EXPECT_EQ(batch[4].data_ptr<double>()[i], place < 0 ? 0 : static_cast<double>(first + place));
      found += place >= 0;
    }
    EXPECT_GT(found, 10);
  }
  harness::prepared_preferences(directory_, "other", harness::pairs(13));
  EXPECT_THAT(refusal(with, "other"), HasSubstr("has log-probabilities of the data set"));
}

TEST_F(PreferenceSourceTest, RefusesBrokenReferences) {
  const text::Dataset made = harness::prepared_preferences(directory_, "set", harness::pairs(3));
  config::Job with = job(128);
  with.preference.reference = (directory_ / "reference").string();
  EXPECT_THAT(refusal(with, "set"), HasSubstr("reference.json"));
  const std::vector<double> numbers(static_cast<std::size_t>(made.train.tokens()));
  write_reference(directory_ / "reference", {.data = made.digest}, numbers, {});
  EXPECT_EQ(refusal(with, "set"), "taken");
  const std::string record = read_file(directory_ / "reference/reference.json");
  for (const std::string& broken :
       {std::string("["), std::string("{}"), record.substr(0, record.size() / 2)}) {
    directory_.write("reference/reference.json", broken);
    EXPECT_THAT(refusal(with, "set"), HasSubstr("reference.json"));
  }
  directory_.write("reference/reference.json", record);
  directory_.write("reference/train.f64", std::string(8, 'x'));
  EXPECT_THAT(refusal(with, "set"), HasSubstr("has log-probabilities of the data set"));
}

TEST_F(PreferenceSourceTest, RefusesWhatItCannotCompare) {
  harness::prepared_preferences(directory_, "pairs", harness::pairs(2));
  EXPECT_THAT(
      refusal(job(128, PreferenceLoss::kKto), "pairs"),
      HasSubstr("preference.loss=kto compares answers with labels, and the data have pairs"));
  EXPECT_THAT(refusal(job(16), "pairs"), HasSubstr("model.seq_len=16: 2 of 2 comparisons"));
  EXPECT_THAT(refusal(job(16, PreferenceLoss::kDpo, "phi4_mini long=cut"), "pairs"),
              HasSubstr("nothing has loss"));
}

}  // namespace
}  // namespace trireme::loaders::preference_source_test
