// trireme-worker generate: loads a checkpoint on one rank and writes one token after the other.
#include "trireme/model/blocks/generate.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <utility>

#include "alone.h"
#include "apps/worker/subcommands.h"
#include "interrupts.h"
#include "trireme/base/json.h"
#include "trireme/checkpoint/convert/weights.h"
#include "trireme/config/families.h"
#include "trireme/data/chat/encode.h"
#include "trireme/data/media/image.h"
#include "trireme/data/media/sample_source.h"
#include "trireme/data/text/tokenizer.h"
#include "trireme/families/arrcoc/keys_checks.h"
#include "trireme/families/arrcoc/samples_questions.h"
#include "trireme/families/vlm/keys_checks.h"
#include "trireme/families/vlm/samples_source.h"

namespace trireme::app {
namespace {

void write(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

blocks::Sampling sampling_of(const Arguments& arguments) {
  return {.temperature = arguments.number<double>("temperature"),
          .top_k = arguments.number<std::int64_t>("top-k"),
          .top_p = arguments.number<double>("top-p"),
          .seed = arguments.number<std::uint64_t>("seed")};
}

using GoOn = std::function<bool()>;

// Writes text as it comes, up to the first of some texts, which is left out.
class TextUpTo {
 public:
  explicit TextUpTo(const Arguments& arguments)
      : stops_(parse_json(arguments.text("stops"), "--stops").get<std::vector<std::string>>()) {}
  ~TextUpTo() { say(std::exchange(held_, {})); }

  // All that was written, with what may have been the beginning of one of them.
  std::string finish() {
    say(std::exchange(held_, {}));
    return written_;
  }

  // Whether none of them has come.
  bool add(const std::string& text) {
    held_ += text;
    std::size_t end = held_.npos, kept = 0;
    for (const std::string& stop : stops_) {
      end = std::min(end, held_.find(stop));
      for (std::size_t size = std::min(stop.size() - 1, held_.size()); size > kept; --size)
        if (held_.ends_with(stop.substr(0, size))) kept = size;
    }
    const bool found = end != held_.npos;
    say(held_.substr(0, found ? end : held_.size() - kept));
    held_ = found ? "" : held_.substr(held_.size() - kept);
    return !found;
  }

 private:
  void say(const std::string& text) {
    write(text);
    written_ += text;
  }

  std::vector<std::string> stops_;
  std::string held_;  // may be the beginning of one of them
  std::string written_;
};

text::Tokenizer vocabulary_of(const Arguments& arguments) {
  const Path vocabulary = arguments.text("vocabulary");
  return text::Tokenizer::from_description(read_file(vocabulary), vocabulary.string());
}

// Writes what follows `start`, and returns it.
std::string go_on_from(const std::vector<std::int32_t>& start, const exec::Model& model,
                       const config::Job& job, const Arguments& arguments,
                       const text::Tokenizer& tokenizer, const GoOn& go_on) {
  TextUpTo text(arguments);
  text::DecodeStream decoded(tokenizer, start);
  blocks::generate(model, {.prompt = {start.begin(), start.end()},
                           .max_tokens = arguments.number<std::int64_t>("tokens"),
                           .context = job.model.seq_len,
                           .sampling = sampling_of(arguments),
                           .on_token = [&](std::int64_t token) {
                             const auto id = static_cast<std::int32_t>(token);
                             if (std::ranges::count(tokenizer.ends(), id) > 0) return false;
                             // The model may know more ids than the vocabulary has.
                             const bool known = id < tokenizer.vocab_size();
                             if (known && !text.add(decoded.add(id))) return false;
                             return go_on();
                           }});
  text.add(decoded.finish());
  return text.finish();
}

std::vector<std::int32_t> start_of(const Arguments& arguments, const text::Tokenizer& tokenizer) {
  const std::string ids = arguments.text("ids", "");  // of a conversation
  return ids.empty() ? tokenizer.encode_prompt(arguments.text("prompt"))
                     : parse_json(ids, "--ids").get<std::vector<std::int32_t>>();
}

void go_on_from_prompt(const exec::Model& model, const config::Job& job, const Arguments& arguments,
                       const GoOn& go_on) {
  const text::Tokenizer tokenizer = vocabulary_of(arguments);
  if (arguments.text("ids", "").empty()) write(arguments.text("prompt"));
  go_on_from(start_of(arguments, tokenizer), model, job, arguments, tokenizer, go_on);
}

// Writes a line of rollouts without its reward: tokens, the new ones' log-probabilities as training has them, and their
// text.
void write_rollout(const exec::Model& model, const config::Job& job, const Arguments& arguments,
                   const GoOn& go_on) {
  const text::Tokenizer tokenizer = vocabulary_of(arguments);
  const std::vector<std::int32_t> start = start_of(arguments, tokenizer);
  const std::int64_t space = job.model.seq_len + 1 - std::ssize(start);
  if (space < 1)
    fail(ErrorKind::kUsage,
         "the prompt has {} tokens and model.seq_len={} of the model is full; shorten the prompt",
         start.size(), job.model.seq_len);
  const std::vector<std::string> stops =
      parse_json(arguments.text("stops"), "--stops").get<std::vector<std::string>>();
  std::string text;
  text::DecodeStream decoded(tokenizer, start);
  std::vector<std::int64_t> all(start.begin(), start.end());
  const std::vector<std::int64_t> made = blocks::generate(
      model, {.prompt = all,
              .max_tokens = std::min(space, arguments.number<std::int64_t>("tokens")),
              .context = job.model.seq_len,
              .sampling = sampling_of(arguments),
              .on_token = [&](std::int64_t token) {
                const auto id = static_cast<std::int32_t>(token);
                if (std::ranges::count(tokenizer.ends(), id) > 0) return false;
                if (id < tokenizer.vocab_size()) text += decoded.add(id);
                return go_on() && std::ranges::none_of(stops, [&](const std::string& stop) {
                         return text.find(stop) != text.npos;
                       });
              }});
  text += decoded.finish();
  all.insert(all.end(), made.begin(), made.end());
  // The rest of a row is padding, which no token before it sees.
  constexpr std::int64_t kPlaces = 64;
  const std::int64_t row =
      std::min(job.model.seq_len, (std::ssize(all) - 1 + kPlaces - 1) / kPlaces * kPlaces);
  const Json line = {{"prompt_ids", start},
                     {"completion_ids", made},
                     {"logprobs", blocks::token_log_probs(model, all, start.size(), row)},
                     {"completion", text}};
  write(line.dump(-1, ' ', false, Json::error_handler_t::replace));
}

// Lines of stdin; none after its end or a stop signal.
class Lines {
 public:
  explicit Lines(const GoOn& go_on) : go_on_(go_on) {}

  std::optional<std::string> next() {
    for (;;) {
      if (const std::size_t end = held_.find('\n'); end != held_.npos) {
        const std::string line = held_.substr(0, end);
        held_.erase(0, end + 1);
        return line;
      }
      if (ended_) return held_.empty() ? std::nullopt : std::optional(std::exchange(held_, {}));
      if (!go_on_()) return std::nullopt;
      constexpr int kLookMs = 100;  // for a signal
      pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
      if (::poll(&input, 1, kLookMs) <= 0) continue;
      char bytes[4096];
      const ssize_t count = ::read(STDIN_FILENO, bytes, sizeof bytes);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0)
        fail(ErrorKind::kData, "standard input cannot be read: {}", std::strerror(errno));
      held_.append(bytes, static_cast<std::size_t>(count));
      ended_ = count == 0;
    }
  }

 private:
  const GoOn& go_on_;
  std::string held_;
  bool ended_ = false;
};

// Each line of stdin is a message of one conversation, which the model answers.
void converse(const exec::Model& model, const config::Job& job, const Arguments& arguments,
              const GoOn& go_on) {
  const text::Tokenizer tokenizer = vocabulary_of(arguments);
  const chat::Template& shape = chat::find_template(arguments.text("chat"));
  const chat::Style style{.prompt = true, .date = arguments.text("date")};
  const char* const mark = ::isatty(STDIN_FILENO) == 1 ? "> " : "";
  chat::Conversation conversation;
  Lines lines(go_on);
  for (write(mark); const auto line = lines.next(); write(mark)) {
    if (line->empty()) continue;
    conversation.push_back({.role = chat::Role::kUser, .content = *line});
    const std::vector<std::int32_t> start =
        chat::encode(chat::render(shape, conversation, style), tokenizer).ids;
    if (std::ssize(start) >= job.model.seq_len)
      fail(
          ErrorKind::kUsage,
          "the conversation has {} tokens and model.seq_len={} of the model is full; begin another "
          "one",
          start.size(), job.model.seq_len);
    conversation.push_back({.role = chat::Role::kAssistant,
                            .content = go_on_from(start, model, job, arguments, tokenizer, go_on)});
    write("\n");
  }
}

// The picture of --image, if there is one.
std::vector<media::Image> pictures(const std::string& path) {
  if (path.empty()) return {};
  const std::string bytes = read_file(path);
  return {media::checked_image(std::as_bytes(std::span(bytes)), path)};
}

// Inputs of a multimodal family for a prompt and the answer so far; none where the answer has filled the context.
std::vector<at::Tensor> prompt_inputs(const loaders::QuestionForm& form,
                                      const std::vector<media::Image>& images,
                                      const std::string& prompt,
                                      const std::vector<std::int64_t>& answered) {
  const config::Job& job = form.job;
  if (config::info(job).pictures == config::Pictures::kRegions) {
    const bool full = std::ssize(prompt) + std::ssize(answered) > config::text_tokens(job);
    if (full && !answered.empty()) return {};
    return loaders::region_prompt(job, images.at(0), prompt, answered);
  }
  std::vector<at::Tensor> inputs = loaders::prompt_batch(form, images, prompt, answered);
  if (inputs[0].size(1) <= job.model.seq_len) return inputs;
  if (!answered.empty()) return {};
  fail(ErrorKind::kUsage,
       "{} tokens of image and prompt are more than model.seq_len={} of the model; shorten the "
       "prompt",
       inputs[0].size(1), job.model.seq_len);
}

// How many tokens each region of the image has, as they lie in it.
void show_regions(const exec::Model& model, const config::Arrcoc& arrcoc,
                  const std::vector<at::Tensor>& values) {
  const std::vector<plan::Value>& all = model.spec.program.values;
  const auto found = std::ranges::find(all, "levels", &plan::Value::name);
  TRIREME_CHECK(found != all.end(), "{} has no levels", model.spec.program.name);
  const at::Tensor levels = values[found - all.begin()][0].to(at::kDouble).contiguous();
  std::string rows;
  std::int64_t sum = 0;
  for (std::int64_t p = 0; p < levels.numel(); ++p) {
    const auto level = std::llround(levels.data_ptr<double>()[p]);
    rows += fmt::format("{:5}{}", level * level, (p + 1) % arrcoc.grid == 0 ? "\n" : "");
    sum += level * level;
  }
  write(fmt::format("{}of {} tokens {} are used\n", rows, arrcoc.budget, sum));
}

// The text of an answer's ids: bytes, or a tokenizer's.
class AnswerText {
 public:
  AnswerText(const loaders::Words& words, const std::vector<std::int64_t>& asked) : words_(words) {
    if (words.tokenizer())
      decoded_.emplace(*words.tokenizer(), std::vector<std::int32_t>(asked.begin(), asked.end()));
  }

  // What is certain with this id. Models may know more ids than have a text.
  std::string add(std::int64_t id) {
    constexpr std::int64_t kBytes = 256;
    if (!decoded_) return id < kBytes ? std::string(1, static_cast<char>(id)) : "";
    const bool has_text = id < words_.tokenizer()->vocab_size() && id != words_.image();
    return has_text ? decoded_->add(static_cast<std::int32_t>(id)) : "";
  }
  std::string finish() { return decoded_ ? decoded_->finish() : ""; }

 private:
  const loaders::Words& words_;
  std::optional<text::DecodeStream> decoded_;
};

loaders::QuestionForm form_of(config::Job job, const Arguments& arguments) {
  const bool given = !arguments.text("vocabulary", "").empty();
  if (!config::info(job).tokenizes_questions)
    job.vlm.tokens = {config::kImageToken, config::kEndToken};
  job.data.chat = arguments.text("template", "");
  const loaders::Words words(job, given ? vocabulary_of(arguments) : text::Tokenizer::bytes());
  return {job, words};
}

// The answer to a question, about an image where there is one, up to its end.
void answer(const exec::Model& model, const config::Job& job, const Arguments& arguments,
            const GoOn& go_on) {
  const std::string prompt = arguments.text("prompt");
  const std::vector<media::Image> images = pictures(arguments.text("image", ""));
  const blocks::Sampling sampling = sampling_of(arguments);
  const bool regions = config::info(job).pictures == config::Pictures::kRegions;
  const loaders::QuestionForm form = form_of(job, arguments);
  AnswerText said(form.words, form.words.asked(prompt, std::ssize(images), "the prompt"));
  if (!regions) write(form.job.data.chat.empty() ? prompt : prompt + "\n");
  TextUpTo text(arguments);
  std::vector<std::int64_t> answered;
  while (std::ssize(answered) < arguments.number<std::int64_t>("tokens") && go_on()) {
    const std::vector<at::Tensor> inputs = prompt_inputs(form, images, prompt, answered);
    if (inputs.empty()) {
      fmt::print(stderr,
                 "\ntrireme: note: the answer ends after {} tokens: image, prompt and answer fill "
                 "the context of the model (model.seq_len={})\n",
                 answered.size(), job.model.seq_len);
      break;
    }
    const std::vector<at::Tensor> values = blocks::values_of(model, inputs);
    if (regions && answered.empty()) {
      show_regions(model, job.arrcoc, values);
      write(prompt);
    }
    const std::int64_t token =
        blocks::sample(blocks::logits_of(model, values), sampling, std::ssize(answered));
    if (form.words.ends(token)) break;
    answered.push_back(token);
    if (!text.add(said.add(token))) return;
  }
  text.add(said.finish());
}

}  // namespace

int generate(const Arguments& arguments) {
  const Interrupts interrupts;
  const bool rollout = arguments.has("rollout");
  const LoadedModel loaded(arguments.text("checkpoint"),
                           arguments.has("context") ? arguments.number<std::int64_t>("context") : 0,
                           rollout ? LoadedModel::Ends::kAnswers : LoadedModel::Ends::kAsTrained);
  const config::Job& job = loaded.job();
  const auto go_on = [&] { return interrupts.first() == 0; };
  if (config::info(job).answers_about_pictures())
    answer(loaded.model(), job, arguments, go_on);
  else if (arguments.has("chat"))
    converse(loaded.model(), job, arguments, go_on);
  else if (rollout)
    write_rollout(loaded.model(), job, arguments, go_on);
  else
    go_on_from_prompt(loaded.model(), job, arguments, go_on);
  if (!arguments.has("chat") || ::isatty(STDIN_FILENO) == 1) write("\n");
  return interrupts.first() == 0 ? 0 : 128 + interrupts.first();
}

}  // namespace trireme::app
