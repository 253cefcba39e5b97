// Questions about a user's pictures: "questions" of the .json beside each.
#include <ATen/ops/empty.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/base/json.h"
#include "trireme/data/file_sources.h"
#include "trireme/data/question_source.h"

namespace trireme::data {
namespace {

struct Pair {
  std::string question, answer;
};

// {"questions": [{"question": ..., "answer": ...}, ...]}, of which the draws, or the sample's number, choose one.
Pair choose_pair(const media::Sample& sample, Draws* draws) {
  const auto refuse = [&](const char* why) {
    fail(ErrorKind::kData,
         "{}: {} in its .json, as a list of {{\"question\": ..., \"answer\": ...}}", sample.name,
         why);
  };
  if (sample.json.empty()) refuse("no \"questions\"");
  const Json document = parse_json(sample.json, sample.name);
  if (!document.is_object() || !document.contains("questions") ||
      !document["questions"].is_array() || document["questions"].empty())
    refuse("no \"questions\"");
  const Json& all = document["questions"];
  const auto count = static_cast<std::int64_t>(all.size());
  const std::int64_t chosen = draws != nullptr ? draws->below(count) : sample.index % count;
  const Json& one = all[static_cast<std::size_t>(chosen)];
  for (const char* key : {"question", "answer"})
    if (!one.is_object() || !one.contains(key) || !one[key].is_string())
      refuse("a question or an answer is no text");
  return {.question = one["question"].get<std::string>(),
          .answer = one["answer"].get<std::string>()};
}

// Float [3, height, width] in [-1, 1].
at::Tensor whole_picture(const media::Image& image) {
  const at::Tensor pixels = at::empty({3, image.height, image.width}, at::kFloat);
  auto* const values = pixels.data_ptr<float>();
  const std::size_t area = image.rgb.size() / 3;
  for (std::size_t channel = 0; channel < 3; ++channel)
    for (std::size_t i = 0; i < area; ++i)
      values[channel * area + i] = static_cast<float>(image.rgb[3 * i + channel]) / 127.5F - 1;
  return pixels;
}

}  // namespace

Asked asked_about(const media::Sample& sample, Draws* draws) {
  Pair pair = choose_pair(sample, draws);
  return {.image = whole_picture(sample.image),
          .question = std::move(pair.question),
          .answer = std::move(pair.answer)};
}

FileReader question_reader(const config::Job& job) {
  return {.read =
              [job](const media::Samples& samples, std::int64_t number, Draws* draws) {
                const media::Sample sample = samples.read(number);
                return question_rows(job, asked_about(sample, draws), sample.name);
              },
          .collate =
              [job](const std::vector<Inputs>& samples) { return merged_questions(job, samples); },
          .weigh = answered_tokens,
          .blank = forget_answer};
}

}  // namespace trireme::data
