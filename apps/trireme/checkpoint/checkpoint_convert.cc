// trireme checkpoint diff|reshard|convert: checkpoints compared and rewritten, as bytes.
#include <fmt/ranges.h>

#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "apps/trireme/commands.h"
#include "apps/trireme/environment.h"
#include "apps/trireme/json_output.h"
#include "apps/trireme/output.h"
#include "apps/trireme/summary.h"
#include "layouts.h"
#include "trireme/base/error.h"
#include "trireme/base/json.h"
#include "trireme/checkpoint/convert/adapters.h"
#include "trireme/checkpoint/convert/compare.h"
#include "trireme/checkpoint/convert/hugging_face.h"
#include "trireme/checkpoint/convert/peft_weights.h"
#include "trireme/checkpoint/convert/preprocessor.h"
#include "trireme/checkpoint/convert/reshard.h"
#include "trireme/checkpoint/convert/weights.h"
#include "trireme/config/families.h"
#include "trireme/config/fields/fields.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/config/synthetic.h"
#include "trireme/config/weights.h"
#include "trireme/data/text/vocabulary.h"
#include "trireme/formats/checkpoint_files.h"
#include "trireme/formats/safetensors.h"
#include "trireme/model/families/describe.h"
#include "trireme/plan/mesh/mesh.h"

namespace trireme::app {
namespace {

config::Job job_of(const Path& checkpoint) {
  return config::parse_job(formats::read_manifest(checkpoint).job, checkpoint.string());
}

std::string shown(const convert::Difference& one) {
  return fmt::format("{} of {}, element {}: {} and {}, {} ulps apart", one.kind, one.parameter,
                     one.element, one.a, one.b, one.ulps);
}

Json difference_json(const std::optional<convert::Difference>& one) {
  if (!one) return nullptr;
  return {{"parameter", one->parameter},
          {"kind", one->kind},
          {"element", one->element},
          {"a", one->a},
          {"b", one->b},
          {"ulps", one->ulps}};
}

Json comparison_json(const Path& a, const Path& b, const convert::Comparison& found) {
  return {{"a", a.string()},
          {"b", b.string()},
          {"tensors", found.tensors},
          {"tensors_that_differ", found.tensors_that_differ},
          {"elements", found.elements},
          {"elements_that_differ", found.elements_that_differ},
          {"first", difference_json(found.first)},
          {"largest", difference_json(found.largest)},
          {"only_a", found.only_a},
          {"only_b", found.only_b}};
}

}  // namespace

int checkpoint_diff(const CheckpointDiffOptions& options) {
  check_output(options.json);
  const Path a = find_checkpoint(options.a), b = find_checkpoint(options.b);
  const model::ModelSpec model = model::describe(job_of(a));
  const convert::StateReader stored_a(a, model.units), stored_b(b, model.units);
  const convert::Comparison found = convert::compare(stored_a, stored_b, model.units);
  fmt::print("a  {}  step {}, {} ranks\nb  {}  step {}, {} ranks\n", a.string(),
             stored_a.manifest().step, stored_a.manifest().world, b.string(),
             stored_b.manifest().step, stored_b.manifest().world);
  if (!found.only_a.empty()) fmt::print("only in a: {}\n", fmt::join(found.only_a, ", "));
  if (!found.only_b.empty()) fmt::print("only in b: {}\n", fmt::join(found.only_b, ", "));
  const bool equal = !found.first && found.only_a.empty() && found.only_b.empty();
  if (found.first)
    fmt::print("first    {}\nlargest  {}\n", shown(*found.first), shown(*found.largest));
  fmt::print("{} of {} tensors and {} of {} elements differ\n", found.tensors_that_differ,
             found.tensors, found.elements_that_differ, found.elements);
  write_json(options.json, comparison_json(a, b, found));
  return equal ? 0 : 1;
}

int checkpoint_reshard(const ReshardOptions& options) {
  const Path from = find_checkpoint(options.path);
  const config::Job job = with_layout(job_of(from), options.to);
  const double ranks = ranks_of(job.parallel);
  if (ranks > mesh::Mesh::kMaxWorld)
    fail(ErrorKind::kUsage, "--to {}: {:.0f} ranks; needs {} or fewer", options.to, ranks,
         mesh::Mesh::kMaxWorld);
  Planned planned = plan_job(job, static_cast<int>(ranks), {});
  const Path path = convert::reshard(from,
                                     {.job = std::move(planned.job),
                                      .model = std::move(planned.model),
                                      .plan = std::move(planned.plan)},
                                     options.out);
  if (const auto vocabulary = text::find_vocabulary(from))
    replace_file(Path(options.out) / text::kVocabularyName,
                 text::read_vocabulary(*vocabulary).description());
  fmt::print("{}: as {:.0f} rank{} would have written it ({})\n", path.string(), ranks,
             ranks == 1 ? "" : "s", options.to);
  return 0;
}

namespace {

void say_unconverted(const Error& error) {
  fmt::print("vocabulary  not converted: {}\n", error.what());
}

// The vocabulary of weights. Only models that read tokens need it.
std::optional<text::Tokenizer> vocabulary_of(const Path& from, const config::Job& job) {
  const bool needed = config::info(job).reads_tokens || config::info(job).tokenizes_questions;
  std::optional<text::Tokenizer> tokenizer;
  try {
    tokenizer = convert::vocabulary_of_weights(from, job);
    if (config::info(job).reads_tokens && !tokenizer)
      fmt::print("vocabulary  none lies in {}\n", from.string());
  } catch (const Error& error) {
    if (needed)
      fail(error.kind(), "{}; or remove the tokenizer to convert the weights alone", error.what());
    say_unconverted(error);
  }
  return tokenizer;
}

void say_vocabulary(const text::Tokenizer& tokenizer, std::string_view file) {
  fmt::print("vocabulary  {} of {} ids, digest {}: {}\n", tokenizer.kind(), tokenizer.vocab_size(),
             tokenizer.digest(), file);
}

// Writes the model, or its adapters alone. Returns the names of parameters that the files cannot hold.
std::vector<std::string> write_theirs(const ConvertOptions& options, const Path& checkpoint,
                                      const config::Job& job) {
  const model::ModelSpec model = model::describe(job);
  const bool adapters = job.lora.rank > 0 && !options.merge;
  std::vector<std::string> left_out;
  if (options.merge && job.lora.rank == 0)
    fail(ErrorKind::kUsage, "--merge: {} has no adapters (lora.rank=0); leave --merge out",
         checkpoint.string());
  if (options.merge)
    convert::merged_to_hugging_face(checkpoint, job, model, options.out);
  else if (adapters)
    convert::to_peft(checkpoint, job, model, options.out);
  else
    left_out = convert::to_hugging_face(checkpoint, job, model, options.out);
  const char* pixels = convert::preprocessor_name(job);
  fmt::print("{}: {}, {}{}{} of {}\n", options.out,
             adapters ? convert::kAdapterConfigName : convert::kConfigName, pixels ? pixels : "",
             pixels ? ", " : "", adapters ? convert::kAdapterModelName : convert::kModelName,
             checkpoint.string());
  return left_out;
}

// Files next to the tokenizer of the model that training began with, such as its chat template.
void copy_companions(const Path& weights, const Path& out) {
  namespace fs = std::filesystem;
  std::error_code cause;
  for (const char* name :
       {"tokenizer_config.json", "chat_template.jinja", "special_tokens_map.json",
        "generation_config.json", "processor_config.json", "chat_template.json"})
    if (convert::is_hugging_face(weights) && fs::exists(weights / name, cause) &&
        !fs::exists(out / name, cause))
      write_file_synced(out / name, read_file(weights / name));
}

// Writes it as their file, which a vocabulary of characters does not have.
void write_vocabulary(const text::Tokenizer& tokenizer, const config::Job& job, const Path& out) {
  // The reference code of H-Net has its vocabulary in itself: ours says whether a beginning token is used.
  if (config::info(job).has_vocabulary) {
    write_file_synced(out / text::kVocabularyName, tokenizer.description());
    return say_vocabulary(tokenizer, text::kVocabularyName);
  }
  try {
    const text::Tokenizer::File file = tokenizer.file();
    write_file_synced(out / file.name, file.content);
    say_vocabulary(tokenizer, file.name);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUsage) throw;
    return say_unconverted(error);
  }
  if (tokenizer.ends().empty()) return;
  Json generation;
  generation["eos_token_id"] = tokenizer.ends();
  write_file_synced(out / "generation_config.json", generation.dump(2) + "\n");
}

int to_theirs(const ConvertOptions& options) {
  const Path checkpoint = find_checkpoint(options.path), out = options.out;
  const config::Job job = job_of(checkpoint);
  const std::optional<text::Tokenizer> tokenizer = vocabulary_of(checkpoint, job);
  const std::vector<std::string> left_out = write_theirs(options, checkpoint, job);
  if (tokenizer) write_vocabulary(*tokenizer, job, out);
  copy_companions(job.model.weights, out);
  if (!left_out.empty())
    fmt::print("{} parameters have no place there, such as {}\n", left_out.size(),
               left_out.front());
  return 0;
}

void refuse_assignments(const ConvertOptions& options) {
  if (!options.assignments.empty())
    fail(ErrorKind::kUsage,
         "--set {}: {} is a checkpoint of ours, whose job is fixed; --set is for a Hugging Face "
         "model that is read, and for a job file with --list",
         options.assignments.front(), options.path);
}

// The job of a file and the assignments, as one rank would train it.
config::Job job_of_file(const ConvertOptions& options) {
  config::Job job = config::load_job(options.path);
  for (const std::string& assignment : options.assignments) config::apply_set(job, assignment);
  job.parallel = {.schedule = job.parallel.schedule};
  job.network = {};
  const config::SyntheticSource* synthetic = config::synthetic_source(job.data.source);
  const config::DatasetFacts facts =
      synthetic != nullptr
          ? synthetic->facts
          : config::DatasetFacts{.vocab = job.model.vocab, .classes = job.vision.classes};
  return config::resolve(std::move(job), 1, facts);
}

std::vector<formats::TensorInfo> listed(const ConvertOptions& options) {
  if (std::filesystem::is_regular_file(options.path)) {
    const config::Job job = job_of_file(options);
    return job.lora.rank > 0 ? convert::peft_tensors(job, model::describe(job))
                             : convert::hugging_face_tensors(job, model::describe(job));
  }
  if (convert::is_hugging_face(options.path))
    fail(ErrorKind::kUsage,
         "checkpoint convert {} --list: a Hugging Face directory, which convert reads; needs a job "
         "file, a run directory or a step-N",
         options.path);
  refuse_assignments(options);
  const Path checkpoint = find_checkpoint(options.path);
  const config::Job job = job_of(checkpoint);
  return job.lora.rank > 0 ? convert::peft_tensors(checkpoint, job, model::describe(job))
                           : convert::hugging_face_tensors(checkpoint, job, model::describe(job));
}

int list_theirs(const ConvertOptions& options) {
  if (!options.out.empty())
    fail(ErrorKind::kUsage, "--list writes nothing; leave OUT={} out, or --list", options.out);
  check_output(options.json);
  std::int64_t elements = 0, bytes = 0;
  Json header = Json::object();
  const std::vector<formats::TensorInfo> tensors = listed(options);
  for (const formats::TensorInfo& tensor : tensors) {
    std::int64_t count = 1;
    for (const std::int64_t size : tensor.shape) count *= size;
    elements += count;
    bytes += count * static_cast<std::int64_t>(size_of(tensor.dtype));
    const std::string_view type = formats::safetensors_type(tensor.dtype);
    fmt::print("{:<64} {:<4} [{}]\n", tensor.name, type, fmt::join(tensor.shape, ", "));
    header[tensor.name] = {{"dtype", type}, {"shape", tensor.shape}};
  }
  fmt::print("{} tensors, {} elements, {} bytes\n", tensors.size(), elements, bytes);
  write_json(options.json, header);
  return 0;
}

// Of the job that config.json and the assignments say.
convert::HuggingFaceWeights their_weights(const ConvertOptions& options) {
  convert::HuggingFaceWeights weights(options.path);
  if (options.assignments.empty()) return weights;
  config::Job job = weights.job();
  for (const std::string& assignment : options.assignments) {
    const std::string key = assignment.substr(0, assignment.find('='));
    if (const config::Field* field = config::find_field(key); field != nullptr && !field->inherited)
      fail(ErrorKind::kUsage,
           "--set {}: weights do not keep this key; set it in the job that begins with them",
           assignment);
    config::apply_set(job, assignment);
  }
  for (const config::Difference& key : config::diff(weights.job(), job))
    fmt::print("set        {}={}, where config.json says {}\n", key.key, key.after, key.before);
  const config::DatasetFacts facts{.vocab = job.model.vocab, .classes = job.vision.classes};
  return {options.path, config::resolve(std::move(job), 1, facts)};
}

// Weights are convert::HuggingFaceWeights or convert::PeftWeights; the vocabulary lies with the model.
template <typename Weights>
int from_theirs(const ConvertOptions& options, const Weights& weights, const Path& model) {
  const Path out = options.out;
  const std::optional<text::Tokenizer> tokenizer = vocabulary_of(model, weights.job());
  const Path path = convert::write_weights(
      weights.job(), weights.model(),
      [&](const model::ParamSpec& param) { return weights.read(param); },
      tokenizer ? tokenizer->digest() : "", std::string("trireme ") + TRIREME_VERSION, out);
  if (tokenizer) {
    write_file_synced(out / text::kVocabularyName, tokenizer->description());
    say_vocabulary(*tokenizer, text::kVocabularyName);
  }
  copy_companions(model, out);
  const Path absolute = std::filesystem::absolute(path).lexically_normal();
  write_file_synced(out / "job.yaml", config::print_job_for(weights.job(), absolute));
  fmt::print("{}: parameters of {}; begin with them by model.weights={}, or train {}\n",
             path.string(), options.path, path.string(), (out / "job.yaml").string());
  return 0;
}

int from_peft(const ConvertOptions& options) {
  if (!options.assignments.empty())
    fail(
        ErrorKind::kUsage,
        "--set {}: {} holds adapters, whose job follows from them and their model; leave --set out",
        options.assignments.front(), options.path);
  const convert::PeftWeights weights(options.path, options.base);
  const config::Lora& lora = weights.job().lora;
  const auto value = [&](const char* key) {
    return config::write_value(config::find_field(key)->get(weights.job()));
  };
  fmt::print(
      "adapters   rank {}, alpha {:.6g}, lora.targets={}, lora.scaling={}, lora.dora={}, of {}\n",
      lora.rank, lora.alpha, value("lora.targets"), value("lora.scaling"), value("lora.dora"),
      weights.base().string());
  return from_theirs(options, weights, weights.base());
}

}  // namespace

int checkpoint_convert(const ConvertOptions& options) {
  if (options.list) return list_theirs(options);
  if (options.out.empty())
    fail(
        ErrorKind::kUsage,
        "checkpoint convert {}: OUT is missing; give the directory to write, or --list to see what "
        "would be written",
        options.path);
  if (!options.json.empty())
    fail(ErrorKind::kUsage, "--json {}: convert prints no table; add --list or leave --json out",
         options.json);
  const bool adapters = convert::is_peft(options.path);
  if (options.merge && (adapters || convert::is_hugging_face(options.path)))
    fail(ErrorKind::kUsage,
         "--merge: {} is a Hugging Face directory, which convert reads; leave --merge out",
         options.path);
  if (adapters) return from_peft(options);
  if (!options.base.empty())
    fail(ErrorKind::kUsage, "--base {}: {} is no directory with {}; leave --base out", options.base,
         options.path, convert::kAdapterConfigName);
  if (convert::is_hugging_face(options.path))
    return from_theirs(options, their_weights(options), options.path);
  refuse_assignments(options);
  return to_theirs(options);
}

}  // namespace trireme::app
