// trireme generate: finds the checkpoint and its vocabulary; the worker computes.
#include <filesystem>

#include "commands.h"
#include "run_directory.h"
#include "trireme/base/error.h"
#include "trireme/config/families.h"
#include "trireme/formats/tokenizer.h"
#include "workers.h"

namespace trireme::app {

int generate(const GenerateOptions& options) {
  const Path checkpoint = find_checkpoint(options.checkpoint);
  const formats::Manifest manifest = formats::verify_checkpoint(checkpoint);
  const config::Job job = config::parse_job(manifest.job, checkpoint.string());
  const bool regions = job.model.family == config::Family::kArrcoc;
  const bool sees = job.model.family == config::Family::kVlm || regions;
  if (!config::is_decoder(job.model.family) && job.model.family != config::Family::kHnet && !sees)
    fail(ErrorKind::kUsage,
         "{}: a model of family {} does not write text here; gpt, llama, hnet, vlm and arrcoc do",
         checkpoint.string(), config::name(job.model.family));
  if (regions && job.data.source != config::DataSource::kPairs)
    fail(ErrorKind::kUsage,
         "{}: was trained on made-up quadrants and knows no text; train it on data.source=pairs",
         checkpoint.string());
  if (regions && options.image.empty())
    fail(ErrorKind::kUsage,
         "a model of family arrcoc answers about an image alone; give one with --image");
  if (job.vlm.tower == config::VlmTower::kJepa)
    fail(ErrorKind::kUsage,
         "{}: a model of vlm.tower=jepa answers about clips, which generate does not read",
         checkpoint.string());
  if (!options.image.empty() && !sees)
    fail(ErrorKind::kUsage, "--image {}: a model of family {} reads text alone; leave it out",
         options.image, config::name(job.model.family));
  if (options.prompt.empty())
    fail(ErrorKind::kUsage, "--prompt is empty; give the model something to go on from");
  std::vector<std::string> words = {"generate",
                                    "--checkpoint",
                                    checkpoint.string(),
                                    "--prompt",
                                    options.prompt,
                                    "--tokens",
                                    std::to_string(options.tokens),
                                    "--temperature",
                                    fmt::format("{:.17g}", options.temperature),
                                    "--top-k",
                                    std::to_string(options.top_k),
                                    "--seed",
                                    std::to_string(options.seed)};
  if (sees) {
    if (!options.image.empty()) words.insert(words.end(), {"--image", options.image});
    return become_worker(words, {});
  }
  // RUNDIR/checkpoints/step-N
  const Path vocabulary = checkpoint.parent_path().parent_path() / kVocabularyName;
  if (!std::filesystem::exists(vocabulary))
    fail(ErrorKind::kData,
         "{}: not there; it lies in the run directory two levels above a checkpoint, keep them "
         "together",
         vocabulary.string());
  const formats::Tokenizer tokenizer =
      formats::Tokenizer::from_description(read_file(vocabulary), vocabulary.string());
  if (tokenizer.vocab_size() > job.model.vocab)
    fail(ErrorKind::kData, "{}: has {} ids, the model of {} knows {}", vocabulary.string(),
         tokenizer.vocab_size(), checkpoint.string(), job.model.vocab);
  tokenizer.encode(options.prompt);  // refuses what the vocabulary cannot say
  words.insert(words.end(), {"--vocabulary", vocabulary.string()});
  return become_worker(words, {});
}

}  // namespace trireme::app
