// Options of `trireme data synth`.
#include "apps/trireme/command_options.h"
#include "trireme/base/error.h"

namespace trireme::app {
namespace {

constexpr char kExamples[] = R"(
Kinds:
  text    a file of words, affine sequences or repeated letters, for data prepare
  vlm     scenes of coloured shapes with captions, questions and answers, as WebDataset shards
  video   clips of moving, hiding and falling shapes with SSv2's labels and lists
  arm     a jointed arm in front of a camera, in DROID's layout (needs HDF5)
Sample i depends only on the seed and i, so a larger --count starts with the samples of a smaller one.

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
    if (option->count() > 0 && group.starts_with("Options for ") && group.find(kind) == group.npos)
      fail(ErrorKind::kUsage, "data synth {} has no {}; see trireme data synth --help", kind,
           option->get_name());
  }
}

}  // namespace

void add_synth(CLI::App& data, SynthOptions& o, Run& run) {
  CLI::App& app =
      add_command(data, "synth", "Generate a synthetic data set with exact labels", kExamples);
  app.add_option("KIND", o.kind, "Kind of data: text, vlm, video or arm")
      ->required()
      ->check(CLI::IsMember({"text", "vlm", "video", "arm"}));
  app.add_option("DIR", o.out, "Directory to write, new or empty")->required();
  app.add_option("--count", o.count, "Number of training samples")->capture_default_str();
  app.add_option("--seed", o.seed, "Random seed")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  const auto of = [](CLI::Option* option, const char* kinds) { option->group(kinds); };
  of(app.add_option("--task", o.task, "Text: words, affine or repeat (default words)"),
     "Options for text");
  of(app.add_option("--length", o.length, "Approximate bytes of a sample (default 512)"),
     "Options for text");
  of(app.add_option("--aspect", o.aspect,
                    "Maximum ratio of the longer to the shorter side (default 1)"),
     "Options for vlm");
  of(app.add_option("--objects", o.objects, "Maximum objects in a scene (default 4)"),
     "Options for vlm");
  of(app.add_option("--questions", o.questions, "Maximum questions about a scene (default 6)"),
     "Options for vlm");
  of(app.add_option("--shard", o.shard,
                    "Samples in a tar file (default 1000 for vlm, 200 for video with frames)"),
     "Options for vlm and video");
  of(app.add_option("--frames", o.frames, "Frames in a clip (default 16 for video, 48 for arm)"),
     "Options for video and arm");
  of(app.add_option("--fps", o.fps, "Frames a second (default 12)"), "Options for video and arm");
  of(app.add_option(
         "--validation", o.validation,
         "Number of additional held-out samples (default: a tenth of --count, at least 1)"),
     "Options for vlm, video and arm");
  of(app.add_option("--size", o.size,
                    "Size in pixels. vlm: shorter side, such as 48:96 (default 64); video: default "
                    "64x64; arm: "
                    "default 128x96"),
     "Options for vlm, video and arm");
  of(app.add_option(
         "--format", o.format,
         "File format. vlm: jpg, png; video: mp4 (needs FFmpeg), webp, frames (tars of PNG); arm: "
         "mp4, webp (default: the first)"),
     "Options for vlm, video and arm");
  app.callback([&app, &o, &run] {
    run = [&app, &o] {
      refuse_others(app, o.kind);
      return data_synth(o);
    };
  });
}

}  // namespace trireme::app
