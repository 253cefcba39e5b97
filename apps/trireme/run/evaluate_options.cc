#include "apps/trireme/command_options.h"
#include "apps/trireme/json_output.h"

namespace trireme::app {
namespace {

constexpr char kEvaluateExamples[] = R"(
Examples:
  trireme evaluate runs/first
  trireme evaluate runs/first/checkpoints/step-100 --data other.txt --split all
  trireme evaluate runs/vit --data pictures --ranks 4 --json figures.json
  trireme evaluate runs/mine --choices questions.jsonl
)";

constexpr char kPredictExamples[] = R"(
Examples:
  trireme predict runs/vit photo.jpg --top 3
  trireme predict runs/clip photo.jpg --text 'a cat' --text 'a dog'
  trireme predict runs/vjepa clip.mp4 photo.jpg --embed --json embeddings.json
)";

}  // namespace

void add_evaluate(CLI::App& root, EvaluateOptions& o, Run& run) {
  CLI::App& app = add_command(root, "evaluate", "Loss and metrics of a checkpoint on a data set",
                              kEvaluateExamples);
  app.add_option("CHECKPOINT", o.checkpoint, "Run directory (its newest checkpoint) or one step-N")
      ->required();
  app.add_option("--data", o.data,
                 "Text, prepared dataset, or files of pictures, clips or trajectories (default: "
                 "data.path of the run)");
  app.add_option("--choices", o.choices,
                 "Questions with several answers, lines of JSON with query, choices and gold: how "
                 "often the right answer is the likeliest (docs/evaluate.md)");
  app.add_option("--split", o.split, "Part of the data; all only for unprepared data")
      ->check(CLI::IsMember({"validation", "train", "all"}))
      ->capture_default_str();
  app.add_option("--batches", o.batches, "Number of global batches (default 0: all)")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 40));
  app.add_option("--ranks", o.ranks, "Number of ranks, as threads of one process (default 1)");
  app.add_option("--set", o.assignments, "Key of the job as section.key=value; may be repeated")
      ->allow_extra_args(false);
  add_json_option(app, o.json);
  app.callback([&] { run = [&] { return evaluate(o); }; });
}

void add_predict(CLI::App& root, PredictOptions& o, Run& run) {
  CLI::App& app = add_command(
      root, "predict", "Classes, captions or embeddings of pictures and clips", kPredictExamples);
  app.add_option("CHECKPOINT", o.checkpoint, "Run directory (its newest checkpoint) or one step-N")
      ->required();
  app.add_option("FILE", o.files, "JPEG, PNG or WebP image, or a video for models of clips")
      ->required();
  app.add_option("--text", o.captions,
                 "Caption to rank with a model of family clip; may be repeated")
      ->allow_extra_args(false);
  app.add_flag("--embed", o.embed, "Print the embedding of each file by the model's vision tower");
  add_number(app, "--top", o.top, "Number of classes or captions to print", 1,
             std::int64_t{1} << 31);
  add_json_option(app, o.json);
  app.callback([&] { run = [&] { return predict(o); }; });
}

}  // namespace trireme::app
