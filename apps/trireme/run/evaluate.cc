// trireme evaluate: any checkpoint on any data set; the worker computes.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>

#include "apps/guard.h"
#include "apps/trireme/commands.h"
#include "apps/trireme/environment.h"
#include "apps/trireme/output.h"
#include "apps/trireme/run/context.h"
#include "apps/trireme/summary.h"
#include "apps/trireme/workers.h"
#include "trireme/base/error.h"
#include "trireme/checkpoint/convert/weights.h"
#include "trireme/config/families.h"
#include "trireme/config/resolve/coded_sums.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/config/resolve/resolve_towers.h"
#include "trireme/config/synthetic.h"
#include "trireme/config/weights.h"
#include "trireme/data/text/questions.h"
#include "trireme/data/text/vocabulary.h"

namespace trireme::app {
namespace {

// The checkpoint's job on other data, without what training does for its memory. Batches stay as they were: some losses
// compare the samples of a batch.
config::Job job_to_evaluate(const EvaluateOptions& options, const Path& checkpoint) {
  config::Job job =
      config::parse_job(convert::manifest_of_weights(checkpoint).job, checkpoint.string());
  // The run's own evaluations compute with these codes; the rest of the section is between ranks.
  const std::string gather = config::codes_gathers(job) ? config::gather_codec(job.network).codec
                                                        : config::Network().gather;
  config::keep_one_rank(job);
  if (config::couples_batch(job)) job.parallel.schedule = "gpipe";  // all forwards come first
  job.network.gather = gather;
  job.checkpoint.keep_best = 0;
  job.run.eval_every = 0;
  job.run.eval_batches = options.batches;
  job.data.tokenizer = tokenizer_of_run(checkpoint.parent_path().parent_path(), job);
  if (!options.data.empty()) {
    if (const config::SyntheticSource* source = config::synthetic_source(job.data.source))
      if (options.assignments.empty())
        fail(ErrorKind::kUsage,
             "--data {}: the model was trained on data.source={}, which reads no files; say what "
             "the "
             "data are, such as --set data.source=images",
             options.data, source->name);
    job.data.path = options.data;
    job.data.weights.clear();
    job.data.tokenizer = config::Data{}.tokenizer;
    // Text is cut into the model's own tokens; a dataset has its own vocabulary, which is compared.
    if (const auto vocabulary = text::find_vocabulary(checkpoint);
        vocabulary && takes_vocabulary(job))
      job.data.tokenizer = vocabulary->string();
  }
  if (options.split == "all") job.data.validation = 0;
  for (const std::string& assignment : options.assignments) config::apply_set(job, assignment);
  return job;
}

// Ids mean what they meant in training. Throws Error{kData} naming both vocabularies.
void check_trained_vocabulary(const Path& checkpoint, const LocatedDataset& data) {
  if (data.vocabulary() == nullptr) return;
  const std::optional<Path> file = text::find_vocabulary(checkpoint);
  if (!file) {
    print_error(
        "note",
        fmt::format(
            "{}: its run keeps no vocabulary, so whether the ids of the data are those of the "
            "model is not known",
            checkpoint.string()));
    return;
  }
  const text::Tokenizer trained = text::read_vocabulary(*file);
  const text::Tokenizer& found = *data.vocabulary();
  if (trained.digest() == found.digest()) return;
  fail(ErrorKind::kData,
       "{}: its vocabulary ({} {}) is not the one that the model was trained with ({} of {}); "
       "prepare the text with --tokenizer {}",
       data.directory.string(), found.kind(), found.digest(), trained.digest(), file->string(),
       file->string());
}

// Of what --set gives the weights another meaning.
void say_other_meaning(const Path& checkpoint, const config::Job& job) {
  const config::Job trained =
      config::parse_job(convert::manifest_of_weights(checkpoint).job, checkpoint.string());
  for (const config::Difference& key :
       config::other_meaning(trained, job, {std::string(config::kVocabularyKey)}))
    print_warning(
        fmt::format("{} is {} here and was {} in training: the weights have another meaning, and "
                    "the figures are "
                    "not those of the trained model",
                    key.key, key.after, key.before));
}

// The run's own data may have changed since it was trained.
void say_other_data(const EvaluateOptions& options, const Path& checkpoint,
                    const LocatedDataset& data) {
  const std::string trained = convert::manifest_of_weights(checkpoint).dataset_digest;
  const bool own = options.data.empty() && options.assignments.empty() && options.split != "all";
  if (own && !trained.empty() && trained != data.digest)
    print_warning(
        fmt::format("{} has changed since training: its digest is {}, that of {} is {}; the "
                    "figures are not those of the run's own validation",
                    data.directory.string(), data.digest, checkpoint.string(), trained));
}

void check_split(const EvaluateOptions& options, const config::Job& job) {
  std::error_code cause;
  if (options.split == "all" && job.data.source == config::DataSource::kText &&
      std::filesystem::exists(Path(job.data.path) / "dataset.json", cause))
    fail(ErrorKind::kUsage,
         "--split all: {} is a prepared dataset, which is divided already; evaluate --split "
         "validation and --split train",
         job.data.path);
}

// Questions are read by the worker too; here they are checked before a model is loaded.
[[noreturn]] void evaluate_choices(const EvaluateOptions& options, const Path& checkpoint) {
  const config::Job job =
      config::parse_job(convert::manifest_of_weights(checkpoint).job, checkpoint.string());
  if (!options.data.empty() || options.split != EvaluateOptions().split || options.ranks ||
      options.batches > 0 || !options.assignments.empty())
    fail(
        ErrorKind::kUsage,
        "--choices {}: goes with --json alone; leave --data, --split, --ranks, --batches and --set "
        "out",
        options.choices);
  if (!config::info(job).chain)
    fail(ErrorKind::kUsage,
         "--choices {}: a model of family {} has no likelihoods of texts; {} have", options.choices,
         config::name(job.model.family),
         config::names_where([](const config::FamilyInfo& one) { return one.chain; }));
  const auto tokenizer = convert::vocabulary_of_weights(checkpoint, job);
  if (!tokenizer)
    fail(ErrorKind::kData,
         "{}: no vocabulary.json or tokenizer.json lies in it or in its run directory; keep them "
         "together",
         checkpoint.string());
  std::int64_t longest = 0;
  for (const text::Question& question : text::read_questions(options.choices))
    for (const text::Continuation& one : text::continuations(question, *tokenizer))
      longest = std::max(longest, std::ssize(one.ids) - 1);  // the last is not read
  fmt::print("{:<14} {}\n{:<14} {}\n", "checkpoint", checkpoint.string(), "choices",
             options.choices);
  std::vector<std::string> words = {"choices",
                                    "--checkpoint",
                                    checkpoint.string(),
                                    "--questions",
                                    options.choices,
                                    "--vocabulary",
                                    job_in_memory(tokenizer->description())};
  if (short_tokens(job) > 0)
    words.insert(words.end(), {"--context", std::to_string(context_of(job, longest, 0))});
  if (!options.json.empty()) words.insert(words.end(), {"--json", options.json});
  become_worker(words, {});
}

}  // namespace

int evaluate(const EvaluateOptions& options) {
  check_output(options.json);
  const Path checkpoint = find_model(options.checkpoint);
  if (!options.choices.empty()) evaluate_choices(options, checkpoint);
  config::Job job = job_to_evaluate(options, checkpoint);
  check_split(options, job);
  const Place place = find_place(options.ranks, std::nullopt);
  if (place.launched())
    fail(ErrorKind::kUsage,
         "trireme evaluate runs its ranks as threads of one process; start it without a launcher");
  const LocatedDataset data = locate_dataset(job.data, [](const std::string& text) {
    fmt::print("{}\n", text);
    std::fflush(stdout);
  });
  check_trained_vocabulary(checkpoint, data);
  Planned planned = plan_job(on_data(std::move(job), data), place.world, data.facts);
  say_other_meaning(checkpoint, planned.job);
  say_other_data(options, checkpoint, data);
  planned.job.run.eval_every = 1;
  fmt::print("{:<14} {}\n{:<14} {}\n", "checkpoint", checkpoint.string(), "data", data.what);
  fmt::print("{:<14} {}\n", "split", options.split);
  std::vector<std::string> words = {"evaluate",
                                    "--checkpoint",
                                    checkpoint.string(),
                                    "--job",
                                    job_in_memory(config::print_yaml(planned.job)),
                                    "--split",
                                    options.split == "validation" ? "validation" : "train",
                                    "--data",
                                    data.what,
                                    "--digest",
                                    data.digest,
                                    "--ranks",
                                    std::to_string(place.world)};
  if (!data.directory.empty()) words.insert(words.end(), {"--dataset", data.directory.string()});
  if (!options.json.empty()) words.insert(words.end(), {"--json", options.json});
  become_worker(words, {});
}

}  // namespace trireme::app
