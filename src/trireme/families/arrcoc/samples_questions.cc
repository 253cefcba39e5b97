#include "trireme/families/arrcoc/samples_questions.h"

#include <ATen/ops/adaptive_avg_pool2d.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "trireme/base/error.h"
#include "trireme/data/loaders/samples/file_sources.h"
#include "trireme/data/loaders/samples/pixels.h"
#include "trireme/data/loaders/tokens/sequence.h"
#include "trireme/families/arrcoc/keys_checks.h"
#include "trireme/families/vlm/keys_checks.h"
#include "trireme/families/vlm/samples_source.h"

namespace trireme::loaders {
namespace {

// In the order of inputs.
enum RegionInput : std::size_t { kImage, kText, kAsked, kRegionTargets, kRegionNoise, kSizes };

// Of one sample, without the dim of samples.
class Row {
 public:
  explicit Row(const config::Job& job) : side_(job.vision.image), inputs_(kSizes + 1) {
    const std::int64_t regions = job.arrcoc.grid * job.arrcoc.grid;
    const std::int64_t tokens = config::text_tokens(job);
    inputs_[kText] = at::zeros({tokens}, at::kLong);
    inputs_[kRegionTargets] = at::full({tokens}, kNoTarget, at::kLong);
    inputs_[kRegionNoise] = at::zeros({regions}, at::kFloat);
  }

  void set_picture(const media::Image& picture) {
    const config::PixelScale from_0_to_1{.std = {1, 1, 1}};
    const at::Tensor seen = fitted(pixels_of(picture, from_0_to_1).unsqueeze(0))[0];
    const std::int64_t rows = seen.size(1), columns = seen.size(2);
    inputs_[kImage] = at::zeros({3, side_, side_}, at::kFloat);
    inputs_[kImage].narrow(1, 0, rows).narrow(2, 0, columns).copy_(seen);
    inputs_[kSizes] = at::tensor({rows, columns}, at::kLong);
  }
  // `tokens`, of which the first are the question and the others are targets but where they are not known; the last one
  // is not read.
  void set_text(const std::vector<std::int64_t>& tokens, std::int64_t asked) {
    inputs_[kAsked] = at::full({}, asked, at::kLong);
    for (std::int64_t i = 0; i + 1 < std::ssize(tokens); ++i) {
      const auto at = static_cast<std::size_t>(i);
      inputs_[kText].data_ptr<std::int64_t>()[i] = tokens[at];
      if (i + 1 >= asked) inputs_[kRegionTargets].data_ptr<std::int64_t>()[i] = tokens[at + 1];
    }
  }
  void draw_noise(Draws& draws) {
    for (std::int64_t p = 0; p < inputs_[kRegionNoise].numel(); ++p)
      inputs_[kRegionNoise].data_ptr<float>()[p] = static_cast<float>(draws.normal());
  }
  const Inputs& inputs() const { return inputs_; }

 private:
  // No longer than a side of the input.
  at::Tensor fitted(const at::Tensor& picture) const {
    const std::int64_t longest = std::max(picture.size(2), picture.size(3));
    if (longest <= side_) return picture;
    const auto shrunk = [&](std::int64_t size) {
      return std::max<std::int64_t>(1, (size * side_ + longest / 2) / longest);
    };
    return at::adaptive_avg_pool2d(picture, {shrunk(picture.size(2)), shrunk(picture.size(3))});
  }

  std::int64_t side_;
  Inputs inputs_;
};

std::vector<std::int64_t> bytes_of(const std::string& text) {
  std::vector<std::int64_t> tokens;
  for (const char byte : text) tokens.push_back(static_cast<unsigned char>(byte));
  return tokens;
}

Inputs region_question(const config::Job& job, const media::Sample& sample, Draws* draws) {
  const Asked asked = asked_about(sample, draws);
  std::vector<std::int64_t> tokens = bytes_of(asked.question + asked.answer);
  tokens.push_back(config::kEndToken);
  if (asked.question.empty())
    fail(ErrorKind::kData, "{}: a question is empty, so no region can matter to it", sample.name);
  if (const auto most = config::text_tokens(job); std::ssize(tokens) - 1 > most)
    fail(ErrorKind::kData,
         "{}: {} bytes of question and answer, more than the {} tokens that model.seq_len={} "
         "leaves after arrcoc.budget={}",
         sample.name, std::ssize(tokens) - 1, most, job.model.seq_len, job.arrcoc.budget);
  Row row(job);
  row.set_picture(asked.images.front());
  row.set_text(tokens, std::ssize(asked.question));
  Draws own(job.data.seed, sample.index);  // held out
  row.draw_noise(draws != nullptr ? *draws : own);
  return row.inputs();
}

}  // namespace

std::vector<at::Tensor> region_prompt(const config::Job& job, const media::Image& image,
                                      const std::string& text,
                                      const std::vector<std::int64_t>& answered) {
  std::vector<std::int64_t> tokens = bytes_of(text);
  tokens.insert(tokens.end(), answered.begin(), answered.end());
  if (const auto most = config::text_tokens(job); std::ssize(tokens) > most)
    fail(ErrorKind::kUsage,
         "{} tokens of prompt and answer are more than the {} that the model has after an image "
         "(model.seq_len={}, arrcoc.budget={}); shorten the prompt",
         std::ssize(tokens), most, job.model.seq_len, job.arrcoc.budget);
  tokens.push_back(config::kEndToken);  // what is asked for is not read
  Row row(job);
  row.set_picture(image);
  row.set_text(tokens, std::ssize(text));
  std::vector<at::Tensor> inputs;
  for (const at::Tensor& input : row.inputs()) inputs.push_back(input.unsqueeze(0));
  return inputs;
}

FileReader region_question_reader(const config::Job& job) {
  return {.read = [job](const media::Samples& samples, std::int64_t number,
                        Draws* draws) { return region_question(job, samples.read(number), draws); },
          .weigh =
              [](const Inputs& sample) {
                return static_cast<double>(
                    (sample[kRegionTargets] != kNoTarget).sum().item<std::int64_t>());
              },
          .blank =
              [](Inputs& sample) {
                sample[kRegionTargets] = at::full_like(sample[kRegionTargets], kNoTarget);
              }};
}

}  // namespace trireme::loaders
