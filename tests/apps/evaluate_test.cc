// trireme evaluate and predict: held to what training measured, and to each other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/apps/program.h"

#if TRIREME_HAS_WORKER

#include <map>

#include "tests/apps/run_files.h"
#include "trireme/data/media/image.h"
#include "trireme/data/media/video.h"
#include "trireme/formats/manifest.h"

namespace trireme::app {
namespace {

using ::testing::HasSubstr;

Json evaluated(const Desk& desk, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "evaluate");
  arguments.insert(arguments.end(), {"--json", "figures.json"});
  const Result result = desk.run(arguments);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return parse_json(read_file(desk / "figures.json"), "figures.json");
}

Json predicted(const Desk& desk, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "predict");
  arguments.insert(arguments.end(), {"--json", "answers.json"});
  const Result result = desk.run(arguments);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return parse_json(read_file(desk / "answers.json"), "answers.json")["files"];
}

// The validation of the last step.
Json last_validation(const Path& run) {
  Json found;
  for (const Json& line : lines_of(run / "metrics.jsonl"))
    if (line.contains("val_loss")) found = line;
  return found;
}

void refused(const Desk& desk, const std::vector<std::string>& arguments, const std::string& why) {
  const Result result = desk.run(arguments);
  EXPECT_NE(result.exit_code, 0);
  expect_one_line(result.err);
  EXPECT_THAT(result.err, HasSubstr(why));
}

std::string lines_of_code(int seed) {
  std::string text;
  for (int i = 0; i < 3000; ++i)
    text +=
        "value[" + std::to_string((i + seed) * i % 97) + "] += " + std::to_string(i % 7) + ";\n";
  return text;
}

TEST(Evaluate, CountsRightAnswersToQuestions) {
  const Desk desk;
  desk.write("text.txt", lines_of_code(1));
  desk.write("questions.jsonl",
             "{\"query\": \"value[1\", \"choices\": [\"7] += 3;\", \"zzzz\"], \"gold\": 0}\n"
             "{\"context\": \"value[2] +\", \"choices\": [\"QQ\", \"= 1;\"], \"answer\": 1}\n"
             "{\"query\": \"value[3] +\", \"choices\": [\"= 2;\", \"QQQQ\"], \"gold\": 1}\n");
  desk.write("job.yaml",
             "model: {family: gpt, layers: 1, hidden: 32, heads: 2, seq_len: 32}\n"
             "data: {path: text.txt}\nrun: {steps: 60, global_batch: 8}\noptim: {lr: 0.01}\n");
  ASSERT_EQ(desk.run({"train", "job.yaml", "--out", "run"}).exit_code, 0);
  const Json found = evaluated(desk, {"run", "--choices", "questions.jsonl"});
  EXPECT_EQ(found["questions"], 3);
  EXPECT_NEAR(found["acc"].get<double>(), 2.0 / 3, 1e-12);
  for (const Json& one : found["answers"]) {
    EXPECT_EQ(one["log_likelihoods"].size(), 2U);
    for (const Json& value : one["log_likelihoods"]) EXPECT_LT(value.get<double>(), 0);
  }
  EXPECT_GT(found["answers"][0]["log_likelihoods"][0], found["answers"][0]["log_likelihoods"][1]);
  desk.write("bad.jsonl", "{\"query\": \"q\", \"choices\": [\"a\", \"b\"], \"gold\": 2}\n");
  refused(desk, {"evaluate", "run", "--choices", "bad.jsonl"}, "bad.jsonl:1");
  refused(desk, {"evaluate", "run", "--choices", "questions.jsonl", "--batches", "2"},
          "goes with --json alone");
  refused(desk, {"evaluate", "run", "--choices", "questions.jsonl", "--split", "all"},
          "goes with --json alone");
}

TEST(Evaluate, GivesWhatValidationGaveAndTakesOtherText) {
  const Desk desk;
  desk.write("text.txt", lines_of_code(0));
  desk.write("other.txt", lines_of_code(5));
  desk.write("job.yaml",
             "model: {family: gpt, layers: 1, hidden: 32, heads: 2, seq_len: 32}\n"
             "data: {path: text.txt, validation: 0.2}\n"
             "run: {steps: 20, global_batch: 8, micro_batch: 4, eval_every: 10}\n"
             "optim: {lr: 0.01}\n");
  ASSERT_EQ(desk.run({"train", "job.yaml", "--out", "run"}).exit_code, 0);
  const Json validation = last_validation(desk / "run");
  const Json own = evaluated(desk, {"run"});
  EXPECT_EQ(own["step"], 20);
  EXPECT_EQ(own["loss"], validation["val_loss"]);
  EXPECT_EQ(own["bits_per_byte"], validation["val_bits_per_byte"]);
  EXPECT_EQ(evaluated(desk, {"run", "--ranks", "2"})["loss"], own["loss"]);
  const Json first = evaluated(desk, {"run", "--batches", "1"});
  EXPECT_LT(first["weight"], own["weight"]);

  // All of a text is its two parts together.
  const Json train = evaluated(desk, {"run", "--data", "other.txt", "--split", "train"});
  const Json held_out = evaluated(desk, {"run", "--data", "other.txt"});
  const Json all = evaluated(desk, {"run", "--data", "other.txt", "--split", "all"});
  EXPECT_NE(held_out["loss"], own["loss"]);
  const auto sum = [](const Json& part) {
    return part["loss"].get<double>() * part["weight"].get<double>();
  };
  EXPECT_NEAR((sum(train) + sum(held_out)) / sum(all), 1, 1e-2);

  ASSERT_EQ(desk.run({"data", "prepare", "other.txt", "--tokenizer", "characters", "--out", "set"})
                .exit_code,
            0);
  refused(desk, {"evaluate", "run", "--data", "set"}, "is not the one that the model was trained");
  refused(desk, {"evaluate", "run", "--data", "none"}, "no such file");
  const Result plain = desk.run({"evaluate", "run"});
  EXPECT_EQ(plain.exit_code, 0);
  EXPECT_THAT(plain.out, Not(HasSubstr("another meaning")));
  const Result other = desk.run({"evaluate", "run", "--set", "model.norm_eps=0.1"});
  EXPECT_EQ(other.exit_code, 0) << other.err;
  EXPECT_THAT(other.out, HasSubstr("model.norm_eps is 0.1 here and was"));
  refused(desk, {"evaluate", "run", "--split", "half"}, "--split");

  // Figures name their data, and data that have changed since training are reported.
  const std::string digest = own["data_digest"];
  EXPECT_EQ(formats::read_manifest(desk / "run/checkpoints/step-20").dataset_digest, digest);
  EXPECT_THAT(plain.out, Not(HasSubstr("changed since training")));
  desk.write("text.txt", lines_of_code(7));
  const Result changed = desk.run({"evaluate", "run", "--json", "changed.json"});
  EXPECT_EQ(changed.exit_code, 0) << changed.err;
  EXPECT_THAT(changed.out, HasSubstr("changed since training"));
  EXPECT_NE(parse_json(read_file(desk / "changed.json"), "figures")["data_digest"], digest);
}

TEST(Evaluate, TakesConvertedModelsAndResumesWhereTheWeightsAreGone) {
  const Desk desk;
  desk.write("text.txt", lines_of_code(0));
  desk.write("other.txt", lines_of_code(5));
  desk.write("job.yaml",
             "model: {family: gpt, layers: 1, hidden: 32, heads: 2, seq_len: 32}\n"
             "data: {path: text.txt, tokenizer: 'bpe:280'}\n"
             "run: {steps: 10, global_batch: 8, micro_batch: 4}\n");
  ASSERT_EQ(desk.run({"train", "job.yaml", "--out", "base"}).exit_code, 0);
  ASSERT_EQ(desk.run({"checkpoint", "convert", "base", "theirs"}).exit_code, 0);
  ASSERT_EQ(desk.run({"checkpoint", "convert", "theirs", "back"}).exit_code, 0);
  const auto loss = [&](const char* model) {
    return evaluated(desk, {model, "--data", "other.txt", "--split", "all"})["loss"].get<double>();
  };
  const double own = loss("base");
  for (const char* model : {"theirs", "back"}) EXPECT_NEAR(loss(model), own, 1e-6) << model;

  // What the run began with may be gone: it keeps the vocabulary.
  desk.write(
      "tuned.yaml",
      "{model: {weights: base}, data: {path: other.txt}, run: {steps: 10, global_batch: 8}}\n");
  ASSERT_EQ(desk.run({"train", "tuned.yaml", "--out", "tuned"}).exit_code, 0);
  std::filesystem::rename(desk / "base", desk / "elsewhere");
  const Result resumed = desk.run({"train", "--out", "tuned", "--steps", "12"});
  EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_EQ(evaluated(desk, {"tuned"})["step"], 12);
}

// A folder a class; what is brighter on the left is "left".
void write_sides(const Desk& desk) {
  for (int i = 0; i < 20; ++i) {
    media::Image image(24, 24);
    for (int y = 0; y < 24; ++y)
      for (int x = 0; x < 24; ++x)
        for (int c = 0; c < 3; ++c)
          image.pixel(x, y)[c] = static_cast<std::uint8_t>(((x < 12) == (i % 2 == 0) ? 150 : 60) +
                                                           (i * 7 + x * y) % 40);
    desk.write(fmt::format("sides/{}/{:02}.jpg", i % 2 == 0 ? "left" : "right", i),
               media::encode_jpeg(image, 90));
    desk.write(fmt::format("pairs/{:02}.jpg", i), media::encode_jpeg(image, 90));
    desk.write(fmt::format("pairs/{:02}.txt", i), i % 2 == 0 ? "bright left" : "bright right");
  }
}

TEST(Predict, OfClassesAgreesWithTheAccuracyOfEvaluate) {
  const Desk desk;
  write_sides(desk);
  desk.write("job.yaml",
             "model: {family: vit}\n"
             "data: {source: images, path: sides, validation: 0.2}\n"
             "vision: {image: 16, patch: 8, layers: 1, hidden: 16, heads: 2}\n"
             "optim: {lr: 0.003}\n"
             "run: {steps: 6, global_batch: 8, micro_batch: 4}\n");
  ASSERT_EQ(desk.run({"train", "job.yaml", "--out", "run"}).exit_code, 0);
  const Json figures = evaluated(desk, {"run", "--split", "all"});
  EXPECT_EQ(figures["weight"], 20);
  std::vector<std::string> ask = {"run", "--top", "1"};
  for (int i = 0; i < 20; ++i)
    ask.push_back(fmt::format("sides/{}/{:02}.jpg", i % 2 == 0 ? "left" : "right", i));
  int right = 0;
  for (const Json& one : predicted(desk, ask)) {
    ASSERT_EQ(one["classes"].size(), 2u);
    EXPECT_NEAR(one["classes"][0]["probability"].get<double>() +
                    one["classes"][1]["probability"].get<double>(),
                1, 1e-6);
    EXPECT_GE(one["classes"][0]["probability"], one["classes"][1]["probability"]);
    right += one["file"].get<std::string>().find(one["classes"][0]["name"].get<std::string>()) !=
             std::string::npos;
  }
  EXPECT_NEAR(figures["metrics"]["accuracy"].get<double>(), right / 20.0, 1e-9);
  EXPECT_EQ(predicted(desk, {"run", "sides/left/00.jpg", "--embed"})[0]["embedding"].size(), 16u);
  refused(desk, {"predict", "run", "sides/left/00.jpg", "--text", "left"}, "--text left");
  refused(desk, {"predict", "run", "job.yaml"}, "job.yaml");
}

TEST(Predict, ChoosesAmongCaptionsAndEmbedsClips) {
  const Desk desk;
  write_sides(desk);
  desk.write("clip.yaml",
             "model: {family: clip, layers: 1, hidden: 16, heads: 2, seq_len: 16}\n"
             "data: {source: pairs, path: pairs, validation: 0.2}\n"
             "vision: {image: 16, patch: 8, layers: 1, hidden: 16, heads: 2}\n"
             "contrastive: {width: 8}\n"
             "run: {steps: 4, global_batch: 4, micro_batch: 4}\n");
  const Result trained = desk.run({"train", "clip.yaml", "--out", "clip"});
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  const std::vector<std::string> ask = {"clip",   "pairs/00.jpg", "--text", "bright left",
                                        "--text", "bright right", "--text", "bright left"};
  const Json captions = predicted(desk, ask)[0]["captions"];
  ASSERT_EQ(captions.size(), 3u);
  double sum = 0;
  std::map<int, double> by_index;
  for (const Json& caption : captions) {
    by_index[caption["index"]] = caption["probability"];
    sum += caption["probability"].get<double>();
  }
  EXPECT_NEAR(sum, 1, 1e-6);
  EXPECT_EQ(by_index[0], by_index[2]);
  EXPECT_NE(by_index[0], by_index[1]);
  EXPECT_EQ(predicted(desk, {"clip", "pairs/00.jpg", "--embed"})[0]["embedding"].size(), 8u);
  refused(desk, {"predict", "clip", "pairs/00.jpg"}, "--text");

  desk.write(
      "jepa.yaml",
      "model: {family: jepa}\n"
      "data: {source: squares, samples: 16}\n"
      "vision: {image: 32, patch: 8, frames: 4, tubelet: 2, layers: 1, hidden: 48, heads: 2, "
      "positions: rotary}\n"
      "jepa: {layers: 1, hidden: 24, heads: 1}\n"
      "run: {steps: 2, global_batch: 4, micro_batch: 4}\n");
  const Result seen = desk.run({"train", "jepa.yaml", "--out", "jepa"});
  ASSERT_EQ(seen.exit_code, 0) << seen.err;
  std::vector<media::Image> frames;
  for (int i = 0; i < 6; ++i) {
    media::Image frame(40, 40);
    for (std::size_t at = 0; at < frame.rgb.size(); ++at)
      frame.rgb[at] = static_cast<std::uint8_t>(at * static_cast<std::size_t>(i) % 251);
    frames.push_back(std::move(frame));
  }
  desk.write("clip.webp", media::encode_webp(frames, 8, true));
  const Json vectors = predicted(desk, {"jepa", "clip.webp", "pairs/00.jpg", "--embed"});
  EXPECT_EQ(vectors[0]["embedding"].size(), 48u);
  EXPECT_NE(vectors[0]["embedding"], vectors[1]["embedding"]);
  refused(desk, {"predict", "jepa", "clip.webp"}, "--embed");
  // Samples that are made on the way are evaluated as validation does it.
  EXPECT_GT(evaluated(desk, {"jepa"})["loss"].get<double>(), 0);
  refused(desk, {"evaluate", "jepa", "--split", "train"}, "no training split");
}

}  // namespace
}  // namespace trireme::app

#endif  // TRIREME_HAS_WORKER
