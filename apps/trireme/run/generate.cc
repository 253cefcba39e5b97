// trireme generate: finds the checkpoint and its vocabulary; the worker computes.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "apps/trireme/commands.h"
#include "apps/trireme/environment.h"
#include "apps/trireme/run/context.h"
#include "apps/trireme/summary.h"
#include "apps/trireme/workers.h"
#include "trireme/base/error.h"
#include "trireme/base/json.h"
#include "trireme/checkpoint/convert/weights.h"
#include "trireme/config/families.h"
#include "trireme/config/sections/chat.h"
#include "trireme/config/synthetic.h"
#include "trireme/data/chat/encode.h"
#include "trireme/data/chat/recognise.h"
#include "trireme/data/text/tokenizer.h"
#include "trireme/data/text/vocabulary.h"

namespace trireme::app {

namespace {

void check_generates(const GenerateOptions& options, const config::Job& job,
                     const Path& checkpoint) {
  const config::FamilyInfo& family = config::info(job);
  const bool sees = family.answers_about_pictures();
  const bool regions = family.pictures == config::Pictures::kRegions;
  constexpr auto kWrites = [](const config::FamilyInfo& one) { return one.writes_text(); };
  if (!kWrites(family))
    fail(ErrorKind::kUsage, "{}: a model of family {} does not write text here; {} do",
         checkpoint.string(), family.name, config::names_where(kWrites));
  if (regions && job.data.source != config::DataSource::kPairs)
    fail(ErrorKind::kUsage,
         "{}: was trained on synthetic quadrants and knows no text; train it on data.source=pairs",
         checkpoint.string());
  if (regions && options.image.empty())
    fail(ErrorKind::kUsage,
         "a model of family {} answers about an image alone; give one with --image", family.name);
  if (job.vlm.tower == config::VlmTower::kJepa)
    fail(ErrorKind::kUsage,
         "{}: a model of vlm.tower=jepa answers about clips, which generate does not read",
         checkpoint.string());
  if (!options.image.empty() && !sees)
    fail(ErrorKind::kUsage, "--image {}: a model of family {} reads text alone; leave it out",
         options.image, config::name(job.model.family));
  if (sees && !family.tokenizes_questions && !options.tokenizer.empty())
    fail(ErrorKind::kUsage,
         "--tokenizer {}: a model of family {} reads and writes bytes; leave it out",
         options.tokenizer, config::name(job.model.family));
  if (sees && !options.chat.empty() && !family.tokenizes_questions)
    fail(ErrorKind::kUsage, "--chat {}: a model of family {} has no chat template; leave it out",
         options.chat, config::name(job.model.family));
  if (sees && !options.chat.empty() && options.prompt.empty())
    fail(ErrorKind::kUsage,
         "--chat {} without --prompt: a model of family {} answers one question; give it with "
         "--prompt",
         options.chat, config::name(job.model.family));
  if (options.rollout && !family.packs_conversations)
    fail(
        ErrorKind::kUsage, "--rollout: family {} has no policy losses; {} do", family.name,
        config::names_where([](const config::FamilyInfo& one) { return one.packs_conversations; }));
  if (options.rollout && options.prompt.empty())
    fail(ErrorKind::kUsage, "--rollout without --prompt; give the prompt that is answered");
  if (options.prompt.empty() && options.chat.empty())
    fail(ErrorKind::kUsage, "--prompt is empty; give the model a text to continue");
  for (const std::string& stop : options.stops)
    if (stop.empty())
      fail(ErrorKind::kUsage, "--stop is empty; give the text that ends the output");
}

// The vocabulary that the model was trained with.
text::Tokenizer tokenizer_of(const GenerateOptions& options, const Path& checkpoint,
                             const formats::Manifest& manifest, const config::Job& job) {
  const std::int64_t ids = job.model.vocab;
  const bool given = !options.tokenizer.empty();
  const auto own = given ? std::nullopt : convert::vocabulary_of_weights(checkpoint, job);
  if (!given && !own)
    fail(ErrorKind::kData,
         "{}: no vocabulary.json or tokenizer.json lies in it or in its run directory; keep them "
         "together, or name the model's vocabulary with --tokenizer",
         checkpoint.string());
  const std::string name = given ? options.tokenizer : checkpoint.string();
  const text::Tokenizer tokenizer = own               ? *own
                                    : name == "bytes" ? text::Tokenizer::bytes()
                                                      : text::read_vocabulary(name);
  if (tokenizer.vocab_size() > ids)
    fail(ErrorKind::kData, "{}: has a vocabulary of {} ids, the model of {} knows {}", name,
         tokenizer.vocab_size(), checkpoint.string(), ids);
  if (!manifest.vocabulary.empty() && manifest.vocabulary != tokenizer.digest())
    fail(
        ErrorKind::kData,
        "{}: its vocabulary has digest {}, the model of {} was trained with {}; name that one with "
        "--tokenizer",
        name, tokenizer.digest(), checkpoint.string(), manifest.vocabulary);
  return tokenizer;
}

// Template that --chat names; auto: the one that the model was trained on, or published with.
config::Chat chosen_chat(const GenerateOptions& options, const Path& checkpoint,
                         const config::Job& job) {
  config::Chat chat = config::parse_chat(options.chat, "--chat");
  if (chat.shape != config::Chat{}.shape) return chat;
  const bool asked = config::info(job).tokenizes_questions && !job.data.chat.empty();
  if (asked || config::reads_conversations(job.data.source)) {
    config::Chat trained = config::parse_chat(job.data.chat);
    if (!chat.date.empty()) trained.date = chat.date;
    return trained;
  }
  const Path own = options.tokenizer.empty() ? checkpoint : Path(options.tokenizer);
  chat.shape = chat::template_of_model(text::find_vocabulary(own).value_or(own), "--chat");
  return chat;
}

// What ends an answer joins the tokenizer's ends and `stops`.
void add_ends(const chat::Template& shape, text::Tokenizer& tokenizer,
              std::vector<std::string>& stops) {
  std::vector<std::int32_t> ends = tokenizer.ends();
  for (const std::string_view stop : shape.stops)
    if (const auto id = tokenizer.find_added_token(stop))
      ends.push_back(*id);
    else
      stops.emplace_back(stop);
  tokenizer = tokenizer.with_ends(std::move(ends));
}

// Ids of a prompt that ends where the answer begins.
std::vector<std::int32_t> chat_prompt(const GenerateOptions& options, const config::Chat& chosen,
                                      const text::Tokenizer& tokenizer) {
  const chat::Template& shape = chat::find_template(chosen.shape);
  const chat::Conversation conversation =
      options.prompt.starts_with('{')
          ? chat::read_conversation(options.prompt, "--prompt")
          : chat::Conversation{{.role = chat::Role::kUser, .content = options.prompt}};
  return chat::encode(chat::render(shape, conversation, {.prompt = true, .date = chosen.date}),
                      tokenizer)
      .ids;
}

// Whether a model that answers about pictures has a tokenizer; else its text is bytes.
bool has_tokenizer(const GenerateOptions& options, const Path& checkpoint,
                   const formats::Manifest& manifest, const config::Job& job) {
  if (!config::info(job).tokenizes_questions) return false;
  return !options.tokenizer.empty() || !manifest.vocabulary.empty() ||
         job.data.tokenizer != config::Data{}.tokenizer || text::find_vocabulary(checkpoint);
}

// Of a model that answers about pictures: the picture, its vocabulary, and the template of its questions, which is that
// of its training unless --chat names one.
std::vector<std::string> words_about_pictures(const GenerateOptions& options,
                                              const Path& checkpoint,
                                              const formats::Manifest& manifest,
                                              const config::Job& job) {
  std::vector<std::string> words;
  if (!options.image.empty()) words.insert(words.end(), {"--image", options.image});
  const bool tokens = has_tokenizer(options, checkpoint, manifest, job);
  if (tokens)
    words.insert(words.end(),
                 {"--vocabulary",
                  job_in_memory(tokenizer_of(options, checkpoint, manifest, job).description())});
  else if (!options.chat.empty())
    fail(
        ErrorKind::kUsage,
        "--chat {}: the questions of {} are bytes, without the special tokens of a template; leave "
        "it out",
        options.chat, checkpoint.string());
  if (!options.chat.empty())
    words.insert(words.end(), {"--template", config::print(chosen_chat(options, checkpoint, job))});
  else if (!job.data.chat.empty())
    words.insert(words.end(), {"--template", job.data.chat});
  return words;
}

}  // namespace

int generate(const GenerateOptions& options) {
  const Path checkpoint = find_model(options.checkpoint);
  const formats::Manifest manifest = convert::is_hugging_face(checkpoint)
                                         ? convert::manifest_of_weights(checkpoint)
                                         : formats::verify_checkpoint(checkpoint);
  const config::Job job = config::parse_job(manifest.job, checkpoint.string());
  check_generates(options, job, checkpoint);
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
                                    "--top-p",
                                    fmt::format("{:.17g}", options.top_p),
                                    "--seed",
                                    std::to_string(options.seed)};
  std::vector<std::string> stops = options.stops;
  const auto say_stops = [&] { words.insert(words.end(), {"--stops", Json(stops).dump()}); };
  if (config::info(job).answers_about_pictures()) {
    say_stops();
    for (std::string& word : words_about_pictures(options, checkpoint, manifest, job))
      words.push_back(std::move(word));
    become_worker(words, {});
  }
  text::Tokenizer tokenizer = tokenizer_of(options, checkpoint, manifest, job);
  std::optional<std::int64_t> prompt;  // its tokens
  if (options.chat.empty()) {
    prompt = std::ssize(tokenizer.encode_prompt(options.prompt));  // refuses what it cannot say
  } else {
    const config::Chat chosen = chosen_chat(options, checkpoint, job);
    add_ends(chat::find_template(chosen.shape), tokenizer, stops);
    if (options.prompt.empty()) {
      words.insert(words.end(), {"--chat", chosen.shape, "--date", chosen.date});
    } else {
      const std::vector<std::int32_t> ids = chat_prompt(options, chosen, tokenizer);
      prompt = std::ssize(ids);
      words.insert(words.end(), {"--ids", Json(ids).dump()});
    }
  }
  say_stops();
  if (options.rollout) words.insert(words.end(), {"--rollout", "1"});
  // A run continues in rows of its own length, so its rollouts have numbers of these.
  const bool as_trained = options.rollout && !convert::is_hugging_face(checkpoint);
  const std::int64_t context =
      as_trained ? job.model.seq_len : context_of(job, prompt, options.tokens);
  words.insert(words.end(), {"--context", std::to_string(context)});
  words.insert(words.end(), {"--vocabulary", job_in_memory(tokenizer.description())});
  become_worker(words, {});
}

}  // namespace trireme::app
