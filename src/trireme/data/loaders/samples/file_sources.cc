#include "trireme/data/loaders/samples/file_sources.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <array>
#include <span>

#include "trireme/base/error.h"
#include "trireme/config/pixels.h"
#include "trireme/data/loaders/asked.h"
#include "trireme/data/loaders/families.h"
#include "trireme/data/loaders/samples/augmentation.h"
#include "trireme/data/loaders/samples/views.h"
#include "trireme/data/loaders/tokens/sequence.h"
#include "trireme/families/probe/model.h"

namespace trireme::loaders {
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
  return seen(sample.clip.frames, view, job.vision.image, config::pixel_scale(job),
              job.data.antialias);
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

// Frames of all segments of a sample, one segment after the other.
media::Sample read_segments(const config::Job& job, const media::Samples& samples,
                            std::int64_t number, Draws* draws) {
  return samples.read(number, [&](const media::VideoInfo& info) {
    return choose_segments(info, {.frames = job.vision.frames}, job.probe.segments, draws);
  });
}

// What `make` gives of the frames of each segment: [segments, 3, frames, image, image], of one segment without that dim.
template <typename Make>
at::Tensor by_segment(const config::Job& job, const media::Sample& sample, const Make& make) {
  const auto frames = static_cast<std::size_t>(job.vision.frames);
  std::vector<at::Tensor> clips;
  for (std::size_t first = 0; first < sample.clip.frames.size(); first += frames)
    clips.push_back(make(std::span(sample.clip.frames).subspan(first, frames)));
  return clips.size() == 1 ? clips[0] : at::stack(clips);
}

// Directions are classes, so a probe's clips are never mirrored.
at::Tensor segments_trained_on(const config::Job& job, const media::Sample& sample, Draws& draws) {
  const config::Probe& probe = job.probe;
  constexpr double kLeast = 0.08, kWidest = 4.0 / 3, kErased = 0.25;  // as V-JEPA 2
  return by_segment(job, sample, [&](std::span<const media::Image> frames) {
    const std::vector<media::Image> changed =
        augment({frames.begin(), frames.end()}, probe.augment, draws);
    const View view = choose_view({sample.clip.width, sample.clip.height},
                                  {.least = kLeast, .widest = kWidest, .flip = false}, &draws);
    at::Tensor clip =
        seen(changed, view, job.vision.image, config::pixel_scale(job), job.data.antialias);
    if (probe.augment > 0) erase(clip, kErased, draws);
    return clip;
  });
}

// A held-out sample's view-th crop, of all segments. The first one has the label.
Inputs probe_view(const config::Job& job, const media::Samples& samples, std::int64_t number,
                  std::int64_t view) {
  const media::Sample sample = read_segments(job, samples, number, nullptr);
  const View seen_as{
      .box = view_boxes({sample.clip.width, sample.clip.height}, job.probe.views)[view]};
  const at::Tensor clips = by_segment(job, sample, [&](std::span<const media::Image> frames) {
    return seen(frames, seen_as, job.vision.image, config::pixel_scale(job), job.data.antialias);
  });
  const at::Tensor label = label_of(job, sample);
  return {clips, view == 0 ? label : number_of(model::kSameSample)};
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
  return {.read =
              [job](const media::Samples& samples, std::int64_t number, Draws* draws) {
                const media::Sample sample =
                    read_clip(samples, number, {.frames = job.vision.frames}, draws);
                return Inputs{clip_seen(job, sample, {}, draws)};
              },
          // Masks are drawn of a clip, and none of one without weight.
          .blank = [](Inputs&) {}};
}

FileReader probe_reader(const config::Job& job) {
  FileReader reader{
      .read =
          [job](const media::Samples& samples, std::int64_t number, Draws* draws) {
            if (draws == nullptr) return probe_view(job, samples, number, 0);
            const media::Sample sample = read_segments(job, samples, number, draws);
            return Inputs{segments_trained_on(job, sample, *draws), label_of(job, sample)};
          },
      .blank = without_label,
      .labelled = true};
  if (job.probe.segments > 1)
    reader.collate = [](const std::vector<Inputs>& samples) {
      Inputs inputs = stacked(samples);
      inputs[0] = inputs[0].flatten(0, 1);
      return inputs;
    };
  if (job.probe.views > 1) {
    reader.views = job.probe.views;
    reader.view = [job](const media::Samples& samples, std::int64_t number, std::int64_t view) {
      return probe_view(job, samples, number, view);
    };
  }
  return reader;
}

FileReader trajectory_reader(const config::Job& job) {
  const auto read = [job](const media::Samples& samples, std::int64_t number, Draws* draws) {
    const media::Sample sample = read_clip(
        samples, number, {.frames = job.vision.frames, .recorded = Recorded::kTrajectory}, draws);
    const media::Trajectory& done = sample.trajectory;
    // Left and right are of the robot, so the middle is seen as it is.
    const View view = family_samples(job).held_out_view({sample.clip.width, sample.clip.height});
    return Inputs{seen(sample.clip.frames, view, job.vision.image, config::pixel_scale(job),
                       job.data.antialias),
                  poses(done.actions), poses(std::span(done.states).first(done.actions.size())),
                  at::ones({}, at::kFloat)};
  };
  return {.read = read, .blank = [](Inputs& inputs) { inputs.back() = at::zeros({}, at::kFloat); }};
}

}  // namespace trireme::loaders
