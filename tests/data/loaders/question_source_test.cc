// Questions about blocks as samples: what stands where, and what is asked.
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <map>
#include <set>

#include "trireme/base/error.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/data/loaders/tokens/sequence.h"
#include "trireme/families/vlm/keys_checks.h"
#include "trireme/families/vlm/samples_questions.h"
#include "trireme/families/vlm/samples_source.h"

namespace trireme::loaders::question_source_test {
namespace {

config::Job job_of(const std::vector<std::string>& sets) {
  config::Job job;
  for (const char* set :
       {"model.family=vlm", "data.source=scenes", "model.seq_len=128", "data.samples=64"})
    config::apply_set(job, set);
  for (const std::string& set : sets) config::apply_set(job, set);
  return config::resolve(job, 1, {});
}

std::vector<std::int64_t> first(std::int64_t count) {
  std::vector<std::int64_t> numbers;
  for (std::int64_t i = 0; i < count; ++i) numbers.push_back(i);
  return numbers;
}

// Text of a row of ids, visual tokens left out, and of its targets.
std::string text_of(const at::Tensor& ids) {
  std::string text;
  for (std::int64_t i = 0; i < ids.size(0); ++i) {
    const auto id = ids[i].item<std::int64_t>();
    if (id > 0 && id < 256) text += static_cast<char>(id);
  }
  return text;
}

TEST(Questions, AreAFunctionOfTheirNumberWithManyShapesAndSomeWithoutImage) {
  std::set<std::pair<std::int64_t, std::int64_t>> shapes;
  int without = 0, apart = 0;
  for (std::int64_t number = 0; number < 400; ++number) {
    const Question asked = question(3, number);
    EXPECT_EQ(asked.question, question(3, number).question);
    EXPECT_EQ(asked.colours.size(),
              static_cast<std::size_t>(asked.columns * asked.rows * asked.images()));
    apart += asked.apart;
    if (asked.has_image() && !asked.apart) shapes.insert({asked.columns, asked.rows});
    without += !asked.has_image();
  }
  EXPECT_EQ(shapes.size(), 6u);
  EXPECT_GT(apart, 4);
  EXPECT_LT(apart, 20);
  EXPECT_GT(without, 20);
  EXPECT_LT(without, 100);
}

TEST(Questions, TheAnswerIsWhatTheImageShows) {
  int codes = 0;
  for (std::int64_t number = 0; number < 60; ++number) {
    const Question asked = question(1, number);
    if (asked.question != "code?") continue;
    ++codes;
    const std::vector<media::Image> images = draw(asked, 32, 1, number);
    ASSERT_EQ(std::ssize(images), asked.images());
    const std::int64_t block = images[0].width / asked.columns;
    for (std::size_t i = 0; i < asked.answer.size(); ++i) {
      const media::Image& image = images[asked.apart ? i : 0];
      const auto row = asked.apart ? 0 : static_cast<std::int64_t>(i) / asked.columns;
      const auto column = static_cast<std::int64_t>(i) % asked.columns;
      const auto shines = [&](int channel) {
        const auto middle = [&](std::int64_t at) {
          return static_cast<int>(at * block + block / 2);
        };
        return image.pixel(middle(column), middle(row))[channel] > 127;
      };
      const std::string seen = {shines(0) ? '1' : '0', shines(1) ? '1' : '0',
                                shines(2) ? '1' : '0'};
      const std::map<char, std::string> colours = {{'r', "100"}, {'g', "010"}, {'b', "001"},
                                                   {'y', "110"}, {'c', "011"}, {'m', "101"}};
      EXPECT_EQ(seen, colours.at(asked.answer[i]));
    }
  }
  EXPECT_GT(codes, 10);
}

TEST(QuestionSource, TargetsAreTheAnswerAndItsEnd) {
  const config::Job job = job_of({});
  const auto numbers = first(12);
  const std::vector<at::Tensor> batch = questions_batch(job, numbers);
  ASSERT_EQ(batch.size(), 4u);
  double tokens = 0;
  for (std::int64_t sample = 0; sample < 12; ++sample) {
    const Question asked = question(job.data.seed, sample);
    const at::Tensor targets = batch[1][sample];
    EXPECT_EQ(text_of(batch[0][sample]),
              asked.before + (asked.apart ? " and " : "") + asked.question + asked.answer);
    EXPECT_EQ(text_of(targets.clamp_min(0)), asked.answer);
    EXPECT_EQ((targets == config::kEndToken).sum().item<std::int64_t>(), 1);
    tokens += static_cast<double>(asked.answer.size()) + 1;
  }
  EXPECT_EQ((batch[1] >= 0).sum().item<std::int64_t>(), static_cast<std::int64_t>(tokens));
}

TEST(QuestionSource, WeighsByTheAnswersOfAllItsBatch) {
  const config::Job job = job_of({});
  const Sources sources = open_questions(job);
  const std::vector<at::Tensor> batch = sources.train->batch(0, 32);
  EXPECT_EQ(sources.train->weight(0, 32), (batch[1] >= 0).sum().item<double>());
  const std::vector<at::Tensor> later = sources.held_out->batch(0, 4);
  EXPECT_EQ(sources.held_out->weight(0, 4), (later[1] >= 0).sum().item<double>());
}

TEST(QuestionSource, EveryRowOfAnImageEndsWithANewlineAndNoRowStandsTwice) {
  const config::Job job = job_of({});
  std::set<std::pair<std::int64_t, std::int64_t>> grids;
  for (std::int64_t number = 0; number < 40; ++number) {
    const Question asked = question(job.data.seed, number);
    if (asked.apart) continue;
    const std::vector<at::Tensor> batch = questions_batch(job, std::vector{number});
    const at::Tensor visual = batch[2][0];
    std::set<std::int64_t> rows;
    std::int64_t newlines = 0, seen = 0;
    for (std::int64_t i = 0; i < visual.size(0); ++i) {
      const auto row = visual[i].item<std::int64_t>();
      newlines += row == -2;
      if (row < 0) continue;
      ++seen;
      rows.insert(row);
    }
    EXPECT_EQ(rows.size(), static_cast<std::size_t>(seen));
    if (!asked.has_image()) {
      EXPECT_EQ(seen + newlines, 0);
      EXPECT_EQ(batch[3].sizes(), at::IntArrayRef({1, 3, 32, 32}));
      EXPECT_EQ(batch[3].abs().max().item<float>(), 0);
      continue;
    }
    EXPECT_LT(*rows.rbegin(), batch[3].size(0) * 16);
    const formats::ImageSize size = image_size(asked, 32, job.data.seed, number);
    const formats::TileGrid grid = choose_grid(size, formats::tile_grids(4), 32);
    const formats::TokenRectangle kept = covered(size, grid, 4);
    EXPECT_EQ(batch[3].size(0), 1 + grid.tiles());
    EXPECT_EQ(newlines, kept.rows);
    EXPECT_EQ(seen, 16 + kept.rows * kept.columns);
    // Its aspect, but for parts of a token.
    EXPECT_LT(std::abs(kept.rows * asked.columns - kept.columns * asked.rows), 4);
    grids.insert({grid.columns, grid.rows});
  }
  EXPECT_GE(grids.size(), 3u);
}

TEST(QuestionSource, ASampleIsTheSameInAnyCompany) {
  const config::Job job = job_of({"vlm.mrope=4,2,2"});
  const auto numbers = first(6);
  const std::vector<at::Tensor> all = questions_batch(job, numbers);
  std::int64_t tile = 0;
  for (std::int64_t sample = 0; sample < 6; ++sample) {
    const std::vector<at::Tensor> one = questions_batch(job, std::vector{sample});
    EXPECT_TRUE(at::equal(one[0][0], all[0][sample]));
    EXPECT_TRUE(at::equal(one[1][0], all[1][sample]));
    EXPECT_TRUE(at::equal(one[4][0], all[4][sample]));
    if (!question(job.data.seed, sample).has_image()) continue;
    const at::Tensor moved = all[2][sample] - 16 * tile * (all[2][sample] >= 0);
    EXPECT_TRUE(at::equal(one[2][0], moved));
    EXPECT_TRUE(at::equal(one[3], all[3].narrow(0, tile, one[3].size(0))));
    tile += one[3].size(0);
  }
}

TEST(QuestionSource, MropePlacesTextBehindTheLargestPlaceOfAnImage) {
  const config::Job job = job_of({"vlm.mrope=4,2,2"});
  for (std::int64_t number = 0; number < 20; ++number) {
    const Question asked = question(job.data.seed, number);
    const std::vector<at::Tensor> batch = questions_batch(job, std::vector{number});
    const at::Tensor places = batch[4][0], visual = batch[2][0];
    const std::int64_t begin = std::ssize(asked.before);
    if (batch[3].size(0) != 1 + 4) continue;
    // The whole image: one time, rows and columns from there on.
    EXPECT_EQ(places[begin + 5][0].item<std::int64_t>(), begin);
    EXPECT_EQ(places[begin + 5][1].item<std::int64_t>(), begin + 1);
    EXPECT_EQ(places[begin + 5][2].item<std::int64_t>(), begin + 1);
    // The grid of 8 x 8 and its newlines follow, then text.
    EXPECT_EQ(places[begin + 16][0].item<std::int64_t>(), begin + 4);
    EXPECT_EQ(places[begin + 16 + 8][2].item<std::int64_t>(), begin + 4 + 8);
    EXPECT_EQ(places[begin + 16 + 72][0].item<std::int64_t>(), begin + 4 + 9);
    return;
  }
  ADD_FAILURE() << "no square among the first";
}

TEST(QuestionSource, AMergersGridHasATokenForTwoByTwoAndNoNewlines) {
  const config::Job job = job_of({"vlm.mrope=4,2,2", "projector.kind=merger", "vlm.layer=-1"});
  for (std::int64_t number = 0; number < 20; ++number) {
    const std::vector<at::Tensor> batch = questions_batch(job, std::vector{number});
    const std::int64_t begin = std::ssize(question(job.data.seed, number).before);
    if (batch[3].size(0) != 1 + 4) continue;
    const auto row = [&](std::int64_t token) {
      return batch[2][0][begin + token].item<std::int64_t>();
    };
    const auto place = [&](std::int64_t token, std::int64_t axis) {
      return batch[4][0][begin + token][axis].item<std::int64_t>() - begin;
    };
    // The whole image has 2 x 2 tokens, the grid behind it 4 x 4 of four tiles.
    for (const auto& [token, at] : {std::pair{3, 3}, std::pair{4, 4}, std::pair{4 + 2, 8},
                                    std::pair{4 + 4, 6}, std::pair{4 + 15, 19}, std::pair{20, -1}})
      EXPECT_EQ(row(token), at) << token;
    EXPECT_EQ(place(4 + 15, 0), 2);
    EXPECT_EQ(place(4 + 15, 1), 2 + 3);
    EXPECT_EQ(place(4 + 15, 2), 2 + 3);
    EXPECT_EQ(place(20, 0), 2 + 4);
    return;
  }
  ADD_FAILURE() << "no square among the first";
}

TEST(QuestionSource, APromptIsTheBeginningOfItsSample) {
  const config::Job job = job_of({"vlm.mrope=4,2,2"});
  int compared = 0;
  for (std::int64_t number = 0; number < 12; ++number) {
    const Question asked = question(job.data.seed, number);
    if (!asked.before.empty() || asked.apart) continue;
    const std::vector<media::Image> images = draw(asked, 32, job.data.seed, number);
    const std::vector<at::Tensor> sample = questions_batch(job, std::vector{number});
    const std::vector<at::Tensor> prompt =
        prompt_batch(job, images, asked.question, {asked.answer[0]});
    const std::int64_t length = prompt[0].size(1);
    for (const std::size_t input : {0, 2, 4})
      EXPECT_TRUE(at::equal(prompt[input], sample[input].narrow(1, 0, length))) << input;
    EXPECT_TRUE(at::equal(prompt[3], sample[3]));
    // What follows is the answer's second token, or its end.
    EXPECT_EQ(sample[1][0][length - 1].item<std::int64_t>(),
              asked.answer.size() > 1 ? asked.answer[1] : config::kEndToken);
    ++compared;
  }
  EXPECT_GT(compared, 3);
}

// The first question of two images.
std::int64_t apart_number(const config::Job& job) {
  std::int64_t number = 0;
  while (!question(job.data.seed, number).apart) ++number;
  return number;
}

TEST(QuestionSource, TwoImagesStandWhereTheTextHasThem) {
  const config::Job job = job_of({"vlm.mrope=4,2,2"});
  const std::int64_t number = apart_number(job);
  const Question asked = question(job.data.seed, number);
  const std::vector<at::Tensor> batch = questions_batch(job, std::vector{number});
  ASSERT_EQ(batch[3].size(0), 2 * 3);  // each whole and in a grid of two
  const std::int64_t begin = std::ssize(asked.before), image = 16 + 4 * 5;
  const at::Tensor visual = batch[2][0], ids = batch[0][0];
  const auto row = [&](std::int64_t i) { return visual[i].item<std::int64_t>(); };
  EXPECT_EQ(row(begin), 0);
  EXPECT_GE(row(begin + 16), 16);
  EXPECT_EQ(row(begin + image), -1);
  EXPECT_EQ(ids[begin + image + 1].item<std::int64_t>(), 'a');
  EXPECT_EQ(row(begin + image + 5), 48);
  // The second image's time is behind the text behind the first.
  const at::Tensor times = batch[4][0].select(1, 0);
  EXPECT_EQ(times[begin + image + 5].item<std::int64_t>(), begin + 4 + 5 + 5);
  EXPECT_EQ(times[begin + image + 5 + image].item<std::int64_t>(), begin + 2 * 9 + 5);
  const std::vector<media::Image> images = draw(asked, 32, job.data.seed, number);
  EXPECT_EQ(images.size(), 2U);
  EXPECT_FALSE(at::equal(batch[3][0], batch[3][3]));
}

TEST(QuestionSource, AnImageApartIsOneTokenWhichTheTextBehindItSees) {
  const config::Job job = job_of({"vlm.cross=[1, 8]", "vlm.max_tiles=0"});
  int two = 0;
  for (std::int64_t number = 0; number < 200; ++number) {
    const Question asked = question(job.data.seed, number);
    const std::vector<at::Tensor> batch = questions_batch(job, std::vector{number});
    const at::Tensor ids = batch[0][0], visual = batch[2][0];
    ASSERT_EQ(batch[3].size(0), std::max<std::int64_t>(1, asked.images()));
    const at::Tensor places = (ids == config::kImageToken).nonzero().squeeze(1);
    ASSERT_EQ(places.size(0), asked.images());
    const std::int64_t end = (batch[1][0] >= 0).nonzero().max().item<std::int64_t>() + 1;
    for (std::int64_t token = 0; token < end; ++token) {
      const std::int64_t seen = (places <= token).sum().item<std::int64_t>() - 1;
      EXPECT_EQ(visual[token].item<std::int64_t>(), seen < 0 ? kEmbedded : 16 * seen) << number;
    }
    EXPECT_TRUE((visual.slice(0, end) == kEmbedded).all().item<bool>());
    two += asked.images() == 2;
  }
  EXPECT_GT(two, 3);
}

TEST(QuestionSource, MarksMustBeAsManyAsPictures) {
  const config::Job job = job_of({});
  const media::Image image(8, 8);
  const Asked two{.images = {image, image}, .question = "<image>?", .answer = "a"};
  try {
    question_row(job, two, "the sample");
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kData);
    EXPECT_EQ(std::string(error.what()),
              "the sample: <image> in its question 1 times, for 2 pictures");
  }
  // Without marks they stand before the text.
  const QuestionRow row = question_row(job, {two.images, "?", "a"}, "the sample");
  EXPECT_EQ(row[2][0].item<std::int64_t>(), 0);
  EXPECT_EQ(row[0][row[0].size(0) - 2].item<std::int64_t>(), '?');
}

TEST(PackedQuestions, EachSampleIsSeenOnceAnEpochWithPositionsOfItsOwn) {
  const config::Job job = job_of({"vlm.pack=true", "model.seq_len=200", "vlm.mrope=4,2,2"});
  const config::Job alone = job_of({"model.seq_len=200", "vlm.mrope=4,2,2"});
  const Sources sources = open_questions(job);
  const std::int64_t rows = sources.train->samples();
  EXPECT_LT(rows, 40);
  const std::vector<at::Tensor> epoch = sources.train->batch(0, rows);
  ASSERT_EQ(epoch[4].sizes(), at::IntArrayRef({rows, 200, 4}));
  std::multiset<std::string> seen, wanted;
  double weight = 0;
  std::int64_t tile = 0;
  for (std::int64_t row = 0; row < rows; ++row) {
    const at::Tensor places = epoch[4][row], begins = (places.select(1, 3) == 0).nonzero();
    // What stands behind the last sample begins one more; nothing of it has loss.
    for (std::int64_t i = 0; i < begins.size(0); ++i) {
      const auto from = begins[i].item<std::int64_t>();
      const auto to = i + 1 < begins.size(0) ? begins[i + 1].item<std::int64_t>() : 200;
      if ((epoch[1][row].slice(0, from, to) >= 0).sum().item<std::int64_t>() == 0) continue;
      // Without what numbers the batch's tiles it says which sample it is.
      std::string text;
      for (const std::size_t input : {0, 1, 4}) {
        const at::Tensor values = epoch[input][row].slice(0, from, to).contiguous();
        text.append(
            reinterpret_cast<const char*>(
                input == 4 ? values.narrow(1, 0, 3).contiguous().data_ptr() : values.data_ptr()),
            static_cast<std::size_t>(8 * (to - from) * (input == 4 ? 3 : 1)));
      }
      seen.insert(text);
    }
    const at::Tensor visual = epoch[2][row];
    const auto largest = visual.max().item<std::int64_t>();
    if (largest >= 0) {
      EXPECT_EQ(visual.masked_select(visual >= 0).min().item<std::int64_t>(), 16 * tile);
      tile = largest / 16 + 1;
    }
    weight += sources.train->weight(row, 1);
  }
  EXPECT_EQ(epoch[3].size(0), tile);
  EXPECT_EQ(weight, (epoch[1] >= 0).sum().item<double>());
  for (std::int64_t number = 0; number < 64; ++number) {
    const std::vector<at::Tensor> one = questions_batch(alone, std::vector{number});
    const auto to = (one[1][0] >= 0).nonzero().max().item<std::int64_t>() + 1;
    std::string text;
    for (const std::size_t input : {0, 1, 4}) {
      const at::Tensor values = one[input][0].slice(0, 0, to).contiguous();
      text.append(reinterpret_cast<const char*>(values.data_ptr()),
                  static_cast<std::size_t>(values.nbytes()));
    }
    wanted.insert(text);
  }
  EXPECT_EQ(seen, wanted);
}

TEST(PackedQuestions, HeldOutRowsFillTheirLastBatchWithEmptyOnes) {
  const config::Job job = job_of({"vlm.pack=true", "model.seq_len=200", "data.validation=0.2"});
  const Sources sources = open_questions(job);
  const std::int64_t rows = sources.held_out->samples();
  EXPECT_EQ(rows % job.run.global_batch, 0);
  const std::vector<at::Tensor> all = sources.held_out->batch(0, rows);
  EXPECT_EQ((all[1] == config::kEndToken).sum().item<std::int64_t>(), 16);
  EXPECT_EQ(sources.held_out->weight(0, rows), (all[1] >= 0).sum().item<double>());
  EXPECT_EQ(all[4].sizes(), at::IntArrayRef({rows, 200}));
}

TEST(BalancedQuestions, AreTheSameSamplesInEveryGlobalBatch) {
  const config::Job plain = job_of({"data.samples=256", "run.global_batch=32"});
  config::Job balanced = plain;
  balanced.vlm.balance = true;
  const Sources a = open_questions(plain), b = open_questions(balanced);
  const at::Tensor first = a.train->batch(32, 32)[0], moved = b.train->batch(32, 32)[0];
  EXPECT_FALSE(at::equal(first, moved));
  EXPECT_TRUE(at::equal(std::get<0>(first.sum(1).sort()), std::get<0>(moved.sum(1).sort())));
  EXPECT_EQ(a.train->weight(32, 32), b.train->weight(32, 32));
}

TEST(QuestionSource, ATooShortSequenceIsRefused) {
  config::Job job = job_of({"model.seq_len=40"});
  try {
    open_questions(job);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_NE(std::string(error.what()).find("model.seq_len=40"), std::string::npos);
  }
}

}  // namespace
}  // namespace trireme::loaders::question_source_test
