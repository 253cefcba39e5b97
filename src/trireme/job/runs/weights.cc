#include "trireme/job/runs/weights.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "trireme/base/error.h"
#include "trireme/checkpoint/convert/peft_weights.h"
#include "trireme/checkpoint/convert/weights.h"
#include "trireme/config/families.h"
#include "trireme/config/weights.h"
#include "trireme/data/text/dataset_files.h"
#include "trireme/data/text/vocabulary.h"
#include "trireme/formats/manifest.h"
#include "trireme/job/runs/run_directory.h"
#include "trireme/model/training.h"

namespace trireme::runs {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kNamed = 5;

// Those that are allowed aside, weights are of the same function here.
void check_meaning(const Path& directory, const config::Job& weights, const config::Job& job,
                   const std::vector<std::string>& allowed) {
  const std::vector<config::Difference> keys = config::other_meaning(weights, job, allowed);
  if (keys.empty()) return;
  std::string list;
  for (std::size_t i = 0; i < std::min(keys.size(), kNamed); ++i)
    list += fmt::format("{}{} is {} there and {} here", i > 0 ? ", " : "", keys[i].key,
                        keys[i].before, keys[i].after);
  if (keys.size() > kNamed) list += fmt::format(", and {} more keys differ", keys.size() - kNamed);
  fail(ErrorKind::kUsage,
       "model.weights={}: {}; leave keys out of the job to have those of the weights, or give "
       "--allow {} to give the weights another meaning",
       directory.string(), list, keys.front().key);
}

struct Vocabulary {
  std::string digest;  // empty: not known
  std::string what;    // "bpe of 1024 ids", or why it is not known
};

Vocabulary vocabulary_of(const text::Tokenizer& tokenizer) {
  return {tokenizer.digest(),
          fmt::format("{} of {} ids", tokenizer.kind(), tokenizer.vocab_size())};
}

// Checkpoints of earlier builds do not say their vocabulary, but the run that has them does.
Vocabulary vocabulary_of(const Path& directory, const formats::Manifest& manifest) {
  try {
    if (!text::find_vocabulary(directory))
      return {manifest.vocabulary, "no vocabulary.json or tokenizer.json lies there"};
    const Vocabulary found = vocabulary_of(text::read_vocabulary(directory));
    const bool other = !manifest.vocabulary.empty() && manifest.vocabulary != found.digest;
    return other ? Vocabulary{manifest.vocabulary, "its file has been replaced"} : found;
  } catch (const Error& error) {
    return {manifest.vocabulary, error.what()};
  }
}

// Vocabulary of the ids of this run; nothing if samples are no text, or bytes as in weights without a vocabulary.
std::optional<Vocabulary> vocabulary_here(const LocatedDataset& data, const config::Job& job,
                                          const Vocabulary& there) {
  if (const text::Tokenizer* vocabulary = data.vocabulary()) return vocabulary_of(*vocabulary);
  const bool asks = config::info(job).tokenizes_questions && !there.digest.empty();
  if (asks || job.data.source == config::DataSource::kWords)
    return vocabulary_of(text::Tokenizer::bytes());
  return std::nullopt;
}

// Gives a remark where the vocabulary of the weights is not known.
std::string check_vocabulary(const Path& directory, const Vocabulary& there, const Vocabulary& here,
                             const config::Data& data, const std::vector<std::string>& allowed) {
  if (there.digest.empty())
    return fmt::format("; whether its vocabulary is that of the data is not known: {}", there.what);
  const bool same = there.digest == here.digest ||
                    std::ranges::find(allowed, config::kVocabularyKey) != allowed.end();
  if (same) return "";
  const bool prepared = fs::exists(Path(data.path) / text::kDatasetName);
  fail(ErrorKind::kUsage,
       "model.weights={}: its vocabulary has digest {} ({}), that of the data has {} ({}); {}, or "
       "give --allow {}",
       directory.string(), there.digest, there.what, here.digest, here.what,
       prepared ? fmt::format("prepare the text again with --tokenizer {}", directory.string())
                : "leave data.tokenizer out to have the vocabulary of the weights",
       config::kVocabularyKey);
}

// Of what the checkpoint's tensor-parallel rank held of it.
void check_shape(const Path& directory, const formats::ManifestUnit& unit,
                 const formats::ManifestParameter& stored, const model::ParamSpec& own) {
  const model::LocalParam needed =
      model::local_param(own, static_cast<int>(unit.tp_rank), static_cast<int>(unit.tp));
  if (stored.shape != needed.shape)
    fail(ErrorKind::kData,
         "model.weights={}: {} is [{}] there{}, this model needs [{}]; begin with the weights of a "
         "model of this shape",
         directory.string(), own.name, fmt::join(stored.shape, ", "),
         unit.tp > 1 ? fmt::format(" (part {} of {})", unit.tp_rank, unit.tp) : "",
         fmt::join(needed.shape, ", "));
}

// Of units that train, all but adapters.
std::vector<std::string> drawn_units(const model::ModelSpec& model,
                                     const std::set<std::string>& stored) {
  std::vector<std::string> names;
  for (std::size_t unit = 0; unit < model.units.size(); ++unit) {
    const model::UnitSpec& spec = model.units[unit];
    const bool here = std::ranges::any_of(
        spec.params, [&](const model::ParamSpec& param) { return stored.contains(param.name); });
    if (!here && model.program.units[unit].trainable && !model::holds_adapters(spec.name))
      names.push_back(spec.name);
  }
  return names;
}

}  // namespace

Path find_weights(const Path& path, formats::CheckpointCheck check) {
  std::error_code cause;
  if (!fs::is_directory(path, cause))
    fail(ErrorKind::kData,
         "model.weights={}: no such directory; needs a run directory, a checkpoint (step-N) or a "
         "Hugging Face directory (config.json)",
         path.string());
  const Path whole = fs::absolute(path).lexically_normal();
  if (is_checkpoint(whole) || convert::is_hugging_face(whole)) return whole;
  convert::refuse_peft(path);
  const auto newest = formats::newest_checkpoint(checkpoint_root(whole), check);
  if (!newest)
    fail(
        ErrorKind::kData,
        "model.weights={}: holds no checkpoint (step-N) and no config.json; needs a run directory, "
        "a checkpoint or a Hugging Face directory",
        path.string());
  if (!newest->refused.empty())
    fail(
        ErrorKind::kData,
        "model.weights={}: its newest checkpoint cannot be used: {}; name the step-N to begin with",
        path.string(), newest->refused.front().problem);
  return newest->path;
}

Path settled_weights(const Path& path, const Path& run, bool resumes,
                     formats::CheckpointCheck check) {
  const Path lock = run / kLockedJobName, given = fs::absolute(path).lexically_normal();
  if (resumes && !fs::exists(given)) return given;
  if (run.empty() || !fs::exists(lock)) return find_weights(path, check);
  const Path begun = config::load_job(lock).model.weights;
  const std::string inside = (given / "").string();
  if (begun == given || begun.string().starts_with(inside)) return begun;
  return find_weights(path, check);
}

std::optional<Origin> origin_of(const Path& weights, const Path& run) {
  std::error_code cause;
  if (weights.empty()) return std::nullopt;
  if (fs::exists(weights, cause)) {
    const Path directory = find_weights(weights);
    const formats::Manifest manifest = convert::manifest_of_weights(directory);
    return Origin{config::parse_job(manifest.job, directory.string()),
                  text::find_vocabulary(directory)};
  }
  const Path lock = run / kLockedJobName;
  if (run.empty() || !fs::exists(lock, cause)) return std::nullopt;
  return Origin{config::load_job(lock), text::find_vocabulary(run)};
}

std::string describe_weights(const Path& directory, const Planned& planned,
                             const LocatedDataset& data, const std::vector<std::string>& allowed) {
  const model::ModelSpec& model = planned.model;
  const formats::Manifest manifest = convert::manifest_of_weights(directory);
  check_meaning(directory, config::parse_job(manifest.job, directory.string()), planned.job,
                allowed);
  std::string text =
      convert::is_hugging_face(directory)
          ? fmt::format("{} (Hugging Face)", directory.string())
          : fmt::format("{} (step {}{})", directory.string(), manifest.step,
                        planned.job.optim.from_weights ? ", optimizer states too" : "");
  const Vocabulary there = vocabulary_of(directory, manifest);
  if (const auto here = vocabulary_here(data, planned.job, there))
    text += check_vocabulary(directory, there, *here, planned.job.data, allowed);
  std::map<std::string, const model::ParamSpec*> own;
  for (const model::UnitSpec& unit : model.units)
    for (const model::ParamSpec& param : unit.params)
      own[param.name] = param.matrix ? param.matrix.get() : &param;
  std::vector<std::string> unused;
  std::set<std::string> stored;
  for (const formats::ManifestUnit& unit : manifest.units)
    for (const formats::ManifestParameter& param : unit.parameters) {
      stored.insert(param.name);
      const auto found = own.find(param.name);
      if (found != own.end())
        check_shape(directory, unit, param, *found->second);
      else if (unit.tp_rank == 0)
        unused.push_back(param.name);
    }
  if (const std::vector<std::string> drawn = drawn_units(model, stored); !drawn.empty())
    text += fmt::format("; it has nothing of {}, which begin with random values",
                        fmt::join(drawn, ", "));
  if (unused.empty()) return text;
  const std::size_t count = unused.size();
  unused.resize(std::min(count, kNamed));
  return text + fmt::format("; this model has no place for {} of its parameters: {}{}", count,
                            fmt::join(unused, ", "), count > kNamed ? ", .." : "");
}

}  // namespace trireme::runs
