#include "written.h"

#include <algorithm>

#include "alone.h"
#include "trireme/base/clock.h"
#include "trireme/base/error.h"
#include "trireme/config/families.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/data/loaders/source.h"
#include "trireme/data/text/tokenizer.h"
#include "trireme/model/blocks/generate.h"
#include "trireme/model/families/describe.h"

namespace trireme::app {
namespace {

constexpr std::int64_t kMostParameters = 20'000'000;
constexpr std::int64_t kSamples = 2;
constexpr std::int64_t kTokens = 200;
constexpr double kSeconds = 2;  // for each sample
constexpr double kTemperature = 0.8;

using Tokens = std::vector<std::int64_t>;

std::string decoded(const text::Tokenizer& tokenizer, const Tokens& tokens) {
  std::vector<std::int32_t> ids;
  for (const std::int64_t token : tokens)
    if (token < tokenizer.vocab_size()) ids.push_back(static_cast<std::int32_t>(token));
  return tokenizer.decode(ids);
}

// The first tokens of held-out samples that lie far apart.
std::vector<Tokens> beginnings(const config::Job& job, const Path& dataset) {
  constexpr std::int64_t kLongest = 24;
  const loaders::Sources sources = loaders::open_sources(job, dataset);
  const loaders::Source& source =
      sources.held_out->samples() > 0 ? *sources.held_out : *sources.train;
  const std::int64_t samples = std::min(kSamples, source.samples());
  std::vector<Tokens> all;
  for (std::int64_t k = 0; k < samples; ++k) {
    const at::Tensor row = source.batch(k * source.samples() / samples, 1)[0].contiguous();
    const auto* const first = row.data_ptr<std::int64_t>();
    all.emplace_back(first, first + std::min(kLongest, job.model.seq_len / 2));
  }
  return all;
}

train::Written written_after(const LoadedModel& loaded, const text::Tokenizer& tokenizer,
                             const Tokens& prompt, std::uint64_t seed) {
  const Stopwatch watch;
  const Tokens tokens = blocks::generate(
      loaded.model(), {.prompt = prompt,
                       .max_tokens = kTokens,
                       .context = loaded.job().model.seq_len,
                       .sampling = {.temperature = kTemperature, .seed = seed},
                       .on_token = [&](std::int64_t) { return watch.seconds() < kSeconds; }});
  return {.prompt = decoded(tokenizer, prompt), .text = decoded(tokenizer, tokens)};
}

}  // namespace

bool writes_samples(const config::Job& job) {
  const bool words =
      job.data.source == config::DataSource::kText || job.data.source == config::DataSource::kWords;
  return config::info(job).reads_tokens && words && job.run.device == config::Device::kCpu &&
         job.model.seq_len > 1 && job.run.memory_limit.count == 0 &&
         model::describe(job).parameters() <= kMostParameters;
}

std::vector<train::Written> write_samples(const config::Job& job, const Path& checkpoint,
                                          const Path& run, const Path& dataset) {
  try {
    const Path vocabulary = run / "vocabulary.json";
    const auto tokenizer =
        text::Tokenizer::from_description(read_file(vocabulary), vocabulary.string());
    const LoadedModel loaded(checkpoint);
    std::vector<train::Written> all;
    for (const Tokens& prompt : beginnings(job, dataset))
      all.push_back(written_after(loaded, tokenizer, prompt, all.size() + 1));
    return all;
  } catch (const Error& error) {
    return {{.text = std::string("no sample could be written: ") + error.what()}};
  }
}

}  // namespace trireme::app
