// Questions about a user's pictures: "questions" in the .json of each, and "images" for questions about several.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "trireme/base/error.h"
#include "trireme/base/json.h"
#include "trireme/data/loaders/balance.h"
#include "trireme/data/loaders/samples/file_sources.h"
#include "trireme/data/loaders/tokens/sequence.h"
#include "trireme/families/vlm/samples_source.h"

namespace trireme::loaders {
namespace {

struct Pair {
  std::string question, answer;
};

// The .json of a sample.
struct Document {
  std::vector<Pair> pairs;
  std::vector<std::string> images;  // names of its pictures; empty: the one that it has
};

[[noreturn]] void refuse(const std::string& name, const char* why) {
  fail(ErrorKind::kData, "{}: {} in its .json, as a list of {{\"question\": ..., \"answer\": ...}}",
       name, why);
}

std::vector<Pair> pairs_of(const Json& document, const std::string& name) {
  if (!document.is_object() || !document.contains("questions") ||
      !document["questions"].is_array() || document["questions"].empty())
    refuse(name, "no \"questions\"");
  std::vector<Pair> pairs;
  for (const Json& one : document["questions"]) {
    for (const char* key : {"question", "answer"})
      if (!one.is_object() || !one.contains(key) || !one[key].is_string())
        refuse(name, "a question or an answer is not text");
    pairs.push_back({.question = one["question"].get<std::string>(),
                     .answer = one["answer"].get<std::string>()});
  }
  return pairs;
}

std::vector<std::string> images_of(const Json& document, const std::string& name) {
  if (!document.contains("images")) return {};
  const Json& list = document["images"];
  const auto is_text = [](const Json& one) { return one.is_string(); };
  if (!list.is_array() || list.empty() || !std::ranges::all_of(list, is_text))
    fail(ErrorKind::kData, "{}: \"images\" in its .json is not a list of names of pictures", name);
  return list.get<std::vector<std::string>>();
}

Document document_of(const std::string& json, const std::string& name) {
  if (json.empty()) refuse(name, "no \"questions\"");
  const Json document = parse_json(json, name);
  return {.pairs = pairs_of(document, name), .images = images_of(document, name)};
}

// One of them, which the draws, or the sample's number, choose.
const Pair& chosen(const std::vector<Pair>& pairs, const media::Sample& sample, Draws* draws) {
  const auto count = std::ssize(pairs);
  return pairs[draws != nullptr ? draws->below(count) : sample.index % count];
}

Inputs read_question(const QuestionForm& form, const media::Samples& samples, std::int64_t number,
                     Draws* draws) {
  const media::Sample sample = samples.read(number);
  const Document document = document_of(sample.json, sample.name);
  const Pair& pair = chosen(document.pairs, sample, draws);
  Asked asked{.images = {}, .question = pair.question, .answer = pair.answer};
  if (document.images.empty()) asked.images.push_back(sample.image);
  for (const std::string& name : document.images)
    asked.images.push_back(samples.picture(number, name));
  return question_row(form, asked, sample.name);
}

std::vector<formats::ImageSize> sizes_of(const Document& document, const media::SampleInfo& info,
                                         const media::Samples& samples, std::int64_t number) {
  if (document.images.empty()) return {{.width = info.width, .height = info.height}};
  std::vector<formats::ImageSize> sizes;
  for (const std::string& image : document.images) {
    const media::ImageSize size = samples.picture_size(number, image);
    sizes.push_back({.width = size.width, .height = size.height});
  }
  return sizes;
}

// Of the longest of the questions.
Outline longest(const QuestionForm& form, const media::Samples& samples, std::int64_t number) {
  const media::SampleInfo info = samples.info(number);
  const std::string name = samples.name(number);
  const Document document = document_of(info.json, name);
  const std::vector<formats::ImageSize> sizes = sizes_of(document, info, samples, number);
  Outline most;
  for (const Pair& pair : document.pairs) {
    const Outline one = question_outline(form, pair.question, pair.answer, sizes, name);
    if (one.tokens > most.tokens) most = one;
  }
  return most;
}

std::int64_t tiles(const Tiling& tiling, const media::Samples& samples, std::int64_t number) {
  const media::SampleInfo info = samples.info(number);
  std::int64_t sum = 0;
  for (const formats::ImageSize& size :
       sizes_of(document_of(info.json, samples.name(number)), info, samples, number))
    sum += tiling.tiles(size);
  return sum;
}

}  // namespace

Asked asked_about(const media::Sample& sample, Draws* draws) {
  const Document document = document_of(sample.json, sample.name);
  if (!document.images.empty())
    fail(ErrorKind::kData, "{}: \"images\" in its .json; this family is asked about one",
         sample.name);
  const Pair& pair = chosen(document.pairs, sample, draws);
  return {.images = {sample.image}, .question = pair.question, .answer = pair.answer};
}

FileReader question_reader(const config::Job& job) {
  const QuestionForm form(job);
  FileReader reader{
      .read = [form](const media::Samples& samples, std::int64_t number,
                     Draws* draws) { return read_question(form, samples, number, draws); },
      .collate = [job](const std::vector<Inputs>& rows) { return merged_questions(job, rows); },
      .weigh = answered_tokens,
      .blank = forget_answer};
  if (job.vlm.pack)
    reader.packing = {
        .outline = [form](const media::Samples& samples,
                          std::int64_t number) { return longest(form, samples, number); },
        .room = row_capacity(job),
        .join =
            [job](const std::vector<Inputs>& samples) { return joined_questions(job, samples); }};
  if (job.vlm.balance)
    reader.work = [tiling = form.tiling, tile = question_work(job).tile](
                      const media::Samples& samples, std::int64_t number) {
      return tile * static_cast<double>(tiles(tiling, samples, number));
    };
  return reader;
}

}  // namespace trireme::loaders
