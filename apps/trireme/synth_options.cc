// Options of `trireme data synth`.
#include "command_options.h"
#include "trireme/base/error.h"

namespace trireme::app {
namespace {

constexpr char kExamples[] = R"(
Kinds:
  text    one file of words, affine sequences or repeated letters, for data prepare
  vlm     scenes of coloured shapes with captions, questions and answers, as WebDataset shards
  video   moving, hiding and falling shapes with SSv2's labels and lists
  arm     a jointed arm before a camera, in DROID's layout (needs HDF5)
Sample i depends on the seed and i alone: a larger count begins with the samples of a smaller one.

Examples:
  trireme data synth text data/words --task words --count 4000
  trireme data synth vlm data/scenes --count 5000 --size 48:96 --aspect 2 --format png
  trireme data synth video data/clips --count 1300 --size 64x64 --frames 16
  trireme data synth arm data/arm --count 200 --frames 64 --fps 12
)";

// Options of another kind would be ignored.
void refuse_others(const CLI::App& app, const std::string& kind) {
  for (const CLI::Option* option : app.get_options()) {
    const std::string& group = option->get_group();
    if (option->count() > 0 && group.starts_with("Of ") && group.find(kind) == group.npos)
      fail(ErrorKind::kUsage, "data synth {} has no {}; see trireme data synth --help", kind,
           option->get_name());
  }
}

}  // namespace

void add_synth(CLI::App& data, SynthOptions& o, Run& run) {
  CLI::App& app =
      add_command(data, "synth", "Make a data set by rule, with exact labels", kExamples);
  app.add_option("KIND", o.kind, "text, vlm, video or arm")
      ->required()
      ->check(CLI::IsMember({"text", "vlm", "video", "arm"}));
  app.add_option("DIR", o.out, "directory to write; new or empty")->required();
  app.add_option("--count", o.count, "samples to train with")->capture_default_str();
  app.add_option("--seed", o.seed, "another seed, other samples")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  const auto of = [](CLI::Option* option, const char* kinds) { option->group(kinds); };
  of(app.add_option("--task", o.task, "words, affine or repeat (words)"), "Of text");
  of(app.add_option("--length", o.length, "bytes of a sample, about (512)"), "Of text");
  of(app.add_option("--aspect", o.aspect, "longer side to shorter, at most (1)"), "Of vlm");
  of(app.add_option("--objects", o.objects, "in a scene, at most (4)"), "Of vlm");
  of(app.add_option("--questions", o.questions, "about a scene, at most (6)"), "Of vlm");
  of(app.add_option("--shard", o.shard, "samples a tar (vlm 1000, video with frames 200)"),
     "Of vlm and video");
  of(app.add_option("--frames", o.frames, "in a clip (video 16, arm 48)"), "Of video and arm");
  of(app.add_option("--fps", o.fps, "frames a second (12)"), "Of video and arm");
  of(app.add_option("--validation", o.validation,
                    "held-out samples in addition (default: a tenth of --count, at least 1)"),
     "Of vlm, video and arm");
  of(app.add_option("--size", o.size,
                    "pixels; vlm: shorter side, 64 or 48:96; others: 64x64 (arm 128x96)"),
     "Of vlm, video and arm");
  of(app.add_option("--format", o.format,
                    "vlm: jpg, png; video: mp4 (needs FFmpeg), webp, frames (tars of PNG); arm: "
                    "mp4, webp; the first is the default"),
     "Of vlm, video and arm");
  app.callback([&app, &o, &run] {
    run = [&app, &o] {
      refuse_others(app, o.kind);
      return data_synth(o);
    };
  });
}

}  // namespace trireme::app
