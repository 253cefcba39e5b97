#include "trireme/data/file_sources.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>

#include <array>
#include <span>

#include "trireme/base/error.h"
#include "trireme/config/pixels.h"
#include "trireme/data/asked.h"
#include "trireme/data/sequence.h"
#include "trireme/data/views.h"

namespace trireme::data {
namespace {

at::Tensor number_of(std::int64_t value) { return at::full({}, value, at::kLong); }

// [3, frames, image, image].
at::Tensor picture(const config::Job& job, const media::Image& image, const Augmentation& rule,
                   Draws* draws) {
  const View view = choose_view({image.width, image.height}, rule, draws);
  return seen({&image, 1}, view, job.vision.image, config::pixel_scale(job), job.data.antialias)
      .expand({3, job.vision.frames, -1, -1});
}

// The class of a sample, which the model must know.
at::Tensor label_of(const config::Job& job, const media::Sample& sample) {
  if (sample.label < 0) fail(ErrorKind::kData, "{}: has no class", sample.name);
  if (sample.label >= job.vision.classes)
    fail(ErrorKind::kUsage, "{}: class {} of vision.classes={}; set vision.classes to {} or more",
         sample.name, sample.label, job.vision.classes, sample.label + 1);
  return number_of(sample.label);
}

// Frames of one clip, all seen in the same way.
at::Tensor clip_seen(const config::Job& job, const media::Sample& sample, const Augmentation& rule,
                     Draws* draws) {
  const View view = choose_view({sample.clip.width, sample.clip.height}, rule, draws);
  return seen(sample.clip.frames, view, job.vision.image, config::pixel_scale(job), job.data.antialias);
}

media::Sample read_clip(const media::Samples& samples, std::int64_t number, const FrameRule& rule,
                        Draws* draws) {
  return samples.read(number, [&](const media::VideoInfo& info) {
    try {
      return choose_frames(info, rule, draws);
    } catch (const Error& error) {
      fail(error.kind(), "{}: {}", samples.name(number), error.what());
    }
  });
}

// Float [rows, 7].
at::Tensor poses(std::span<const media::Pose7> rows) {
  const at::Tensor all = at::empty({std::ssize(rows), 7}, at::kFloat);
  float* to = all.data_ptr<float>();
  for (const media::Pose7& row : rows)
    for (const double value : row) *to++ = static_cast<float>(value);
  return all;
}

void without_label(Inputs& inputs) { inputs.back() = number_of(kNoTarget); }

}  // namespace

FileReader image_reader(const config::Job& job) {
  return {.read =
              [job](const media::Samples& samples, std::int64_t number, Draws* draws) {
                const media::Sample sample = samples.read(number);
                return Inputs{picture(job, sample.image, {}, draws), label_of(job, sample)};
              },
          .blank = without_label,
          .labelled = true};
}

FileReader caption_reader(const config::Job& job) {
  const auto read = [job](const media::Samples& samples, std::int64_t number, Draws* draws) {
    const media::Sample sample = samples.read(number);
    if (sample.text.empty())
      fail(ErrorKind::kData, "{} has no caption, neither in .txt nor as \"caption\" in .json",
           sample.name);
    // Captions speak of left and right and of all there is.
    const Augmentation rule{.least = 0.9, .flip = false};
    Inputs inputs = caption_tokens(job, sample.text);
    inputs.insert(inputs.begin(), picture(job, sample.image, rule, draws));
    return inputs;
  };
  return {.read = read, .blank = [](Inputs& inputs) { inputs.back() = number_of(-1); }};
}

FileReader clip_reader(const config::Job& job) {
  const bool labelled = job.model.family == config::Family::kProbe;
  FileReader reader{.read = [job, labelled](const media::Samples& samples, std::int64_t number,
                                            Draws* draws) {
    const media::Sample sample = read_clip(samples, number, {.frames = job.vision.frames}, draws);
    // Directions are classes, so a probe's clips are never mirrored.
    Inputs inputs = {clip_seen(job, sample, {.flip = !labelled}, draws)};
    if (labelled) inputs.push_back(label_of(job, sample));
    return inputs;
  }};
  reader.labelled = labelled;
  // Without a label masks are drawn of a clip, and none of one without weight.
  reader.blank = labelled ? without_label : [](Inputs&) {};
  return reader;
}

FileReader trajectory_reader(const config::Job& job) {
  return {.read = [job](const media::Samples& samples, std::int64_t number, Draws* draws) {
    const media::Sample sample =
        read_clip(samples, number,
                  {.frames = job.vision.frames, .recorded = Recorded::kTrajectory}, draws);
    const media::Trajectory& done = sample.trajectory;
    // Left and right are of the robot, so the middle is seen as it is.
    const View view{.box = middle_box({sample.clip.width, sample.clip.height})};
    return Inputs{seen(sample.clip.frames, view, job.vision.image, config::pixel_scale(job),
                       job.data.antialias),
                  poses(done.actions),
                  poses(std::span(done.states).first(done.actions.size()))};
  }};
}

}  // namespace trireme::data
