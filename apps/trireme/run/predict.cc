// trireme predict: what a trained model says of pictures and clips; the worker computes.
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "apps/trireme/commands.h"
#include "apps/trireme/data/data_record.h"
#include "apps/trireme/environment.h"
#include "apps/trireme/output.h"
#include "apps/trireme/summary.h"
#include "apps/trireme/workers.h"
#include "trireme/base/error.h"
#include "trireme/base/json.h"
#include "trireme/checkpoint/convert/weights.h"
#include "trireme/config/families.h"
#include "trireme/config/resolve/resolve.h"

namespace trireme::app {
namespace {

// The checkpoint's job on one rank, one sample at a time.
config::Job job_to_ask(const Path& checkpoint) {
  config::Job job =
      config::parse_job(convert::manifest_of_weights(checkpoint).job, checkpoint.string());
  config::keep_one_rank(job);
  job.run.global_batch = job.run.micro_batch =
      2;  // some losses compare samples, which are not asked for here
  job = config::resolve(job, 1, {.vocab = job.model.vocab, .classes = job.vision.classes});
  job.run.global_batch = job.run.micro_batch = 1;
  return job;
}

void check_family(const PredictOptions& options, const Path& checkpoint, const config::Job& job) {
  const config::FamilyInfo& family = config::info(job);
  constexpr auto kEmbeds = [](const config::FamilyInfo& one) { return one.embeds; };
  constexpr auto kPredicts = [](const config::FamilyInfo& one) {
    return one.predicts != config::Predicts::kNothing;
  };
  if (options.embed && !kEmbeds(family))
    fail(ErrorKind::kUsage,
         "{}: --embed needs a vision tower, and a model of family {} has none; {} have one",
         checkpoint.string(), family.name, config::names_where(kEmbeds));
  if (!options.embed && !kPredicts(family))
    fail(ErrorKind::kUsage,
         "{}: a model of family {} has no classes and no captions to choose among; {} do. Give "
         "--embed for the embeddings of its tower",
         checkpoint.string(), family.name, config::names_where(kPredicts));
  const bool chooses = family.predicts == config::Predicts::kCaptions && !options.embed;
  if (chooses && options.captions.empty())
    fail(ErrorKind::kUsage,
         "a model of family {} chooses among captions; give each with --text, or give --embed",
         family.name);
  if (!chooses && !options.captions.empty())
    fail(ErrorKind::kUsage,
         "--text {}: only a model of family {} without --embed reads captions; leave it out",
         options.captions.front(), config::names_where([](const config::FamilyInfo& one) {
           return one.predicts == config::Predicts::kCaptions;
         }));
  for (const std::string& caption : options.captions)
    if (std::ssize(caption) >= job.model.seq_len)
      fail(ErrorKind::kUsage,
           "--text of {} bytes: the model reads captions of up to model.seq_len-1={}; shorten it",
           caption.size(), job.model.seq_len - 1);
}

}  // namespace

int predict(const PredictOptions& options) {
  check_output(options.json);
  for (const std::string& file : options.files)
    if (!std::filesystem::is_regular_file(file))
      fail(ErrorKind::kData, "{}: no such file; needs a picture or a clip", file);
  const Path checkpoint = find_model(options.checkpoint);
  const config::Job job = job_to_ask(checkpoint);
  check_family(options, checkpoint, job);
  const Json request{{"files", options.files},
                     {"captions", options.captions},
                     {"classes", recorded_classes(checkpoint.parent_path().parent_path())},
                     {"embed", options.embed},
                     {"top", options.top}};
  std::vector<std::string> words = {"predict",
                                    "--checkpoint",
                                    checkpoint.string(),
                                    "--job",
                                    job_in_memory(config::print_yaml(job)),
                                    "--request",
                                    job_in_memory(request.dump())};
  if (!options.json.empty()) words.insert(words.end(), {"--json", options.json});
  become_worker(words, {});
}

}  // namespace trireme::app
