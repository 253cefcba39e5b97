#include "trireme/data/loaders/asked.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "trireme/base/error.h"
#include "trireme/base/fs.h"
#include "trireme/config/pixels.h"
#include "trireme/data/loaders/families.h"
#include "trireme/data/loaders/samples/clip_source.h"
#include "trireme/data/loaders/samples/views.h"
#include "trireme/data/media/sample_source.h"
#include "trireme/families/vlm/keys_checks.h"
#include "trireme/families/vlm/samples_source.h"

namespace trireme::loaders {
namespace {

bool is_clip_file(const std::string& file) {
  return media::is_video_name(file) || Path(file).extension() == ".webp";
}

std::vector<media::Image> frames_of(const config::Job& job, const MappedFile& bytes,
                                    const std::string& file) {
  if (job.vision.frames * job.probe.segments == 1 || !is_clip_file(file))
    return {media::checked_image(bytes.bytes(), file)};
  media::Sample sample;
  media::read_clip(
      bytes.bytes(), file,
      [&](const media::VideoInfo& info) {
        return choose_segments(info, {.frames = job.vision.frames}, job.probe.segments, nullptr);
      },
      sample);
  return std::move(sample.clip.frames);
}

}  // namespace

std::vector<at::Tensor> caption_tokens(const config::Job& job, std::string_view text) {
  const at::Tensor tokens = at::zeros({job.model.seq_len}, at::kLong);
  const std::int64_t end = std::min(std::ssize(text), job.model.seq_len - 1);
  for (std::int64_t i = 0; i < end; ++i)
    tokens.data_ptr<std::int64_t>()[i] = static_cast<unsigned char>(text[i]);
  return {tokens, at::full({}, end, at::kLong)};
}

View middle_view(media::ImageSize size) { return choose_view(size, {}, nullptr); }

View camera_view(media::ImageSize size) { return {.box = middle_box(size)}; }

at::Tensor asked_pixels(const config::Job& job, const std::string& file) {
  const MappedFile bytes(file);
  const std::vector<media::Image> frames = frames_of(job, bytes, file);
  const View view = family_samples(job).held_out_view({frames[0].width, frames[0].height});
  const at::Tensor pixels =
      seen(frames, view, job.vision.image, config::pixel_scale(job), job.data.antialias);
  const std::int64_t segments = job.probe.segments, count = job.vision.frames;
  return pixels.expand({3, segments * count, -1, -1})
      .unflatten(1, {segments, count})
      .transpose(0, 1)
      .contiguous();
}

std::vector<at::Tensor> asked_inputs(const config::Job& job, const std::string& file) {
  return family_samples(job).asked(job, file);
}

std::vector<at::Tensor> asked_pictures(const config::Job& job, const std::string& file) {
  return {asked_pixels(job, file)};
}

std::vector<at::Tensor> asked_masked(const config::Job& job, const std::string& file) {
  std::vector<at::Tensor> inputs = {asked_pixels(job, file)};
  for (at::Tensor& mask : packed_masks(job, 0, 0, 1)) inputs.push_back(std::move(mask));
  return inputs;
}

std::vector<at::Tensor> asked_prompt(const config::Job& job, const std::string& file) {
  if (job.vlm.tower == config::VlmTower::kJepa) return {{}, {}, {}, asked_pixels(job, file)};
  const media::Image image = media::checked_image(MappedFile(file).bytes(), file);
  config::Job pixels = job;  // nothing else is read
  pixels.data.tokenizer = config::Data{}.tokenizer;
  pixels.vlm.tokens = {config::kImageToken, config::kEndToken};
  return prompt_batch(pixels, {&image, 1}, "?", {});
}

std::vector<at::Tensor> asked_inputs_of_caption(const config::Job& job, std::string_view text) {
  std::vector<at::Tensor> inputs = {at::Tensor()};
  for (const at::Tensor& input : caption_tokens(job, text)) inputs.push_back(input.unsqueeze(0));
  return inputs;
}

}  // namespace trireme::loaders
