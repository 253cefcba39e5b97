#include "trireme/data/chat/rollouts.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "trireme/base/error.h"
#include "trireme/data/chat/sides.h"
#include "trireme/formats/json_fields.h"

namespace trireme::chat {
namespace {

using formats::JsonFields;

// Finite numbers; `where` names the list.
std::vector<double> numbers_of(const Json& list, const std::string& where) {
  if (!list.is_array())
    fail(ErrorKind::kData, "{} is {}; needs a list of numbers", where, formats::shown_json(list));
  std::vector<double> numbers;
  for (const Json& value : list) {
    if (!value.is_number() || !std::isfinite(value.get<double>()))
      fail(ErrorKind::kData, "{}.{} is {}; needs a finite number", where, numbers.size(),
           formats::shown_json(value));
    numbers.push_back(value.get<double>());
  }
  return numbers;
}

// Up to 0, apart from roundings of an engine.
std::vector<double> log_probs_of(const Json& list, const std::string& where) {
  constexpr double kRounded = 1e-3;
  std::vector<double> numbers = numbers_of(list, where);
  for (std::size_t i = 0; i < numbers.size(); ++i)
    if (numbers[i] > kRounded)
      fail(ErrorKind::kData, "{}.{} is {}; needs the logarithm of a probability, 0 or less", where,
           i, numbers[i]);
  return numbers;
}

std::vector<std::int32_t> ids_of(const Json& list, const std::string& where,
                                 std::int64_t vocab_size) {
  if (!list.is_array() || list.empty())
    fail(ErrorKind::kData, "{} is {}; needs a list of one token or more", where,
         formats::shown_json(list));
  std::vector<std::int32_t> ids;
  for (const Json& value : list)
    ids.push_back(static_cast<std::int32_t>(
        formats::json_integer(value, fmt::format("{}.{}", where, ids.size()), 0, vocab_size - 1)));
  return ids;
}

// Lists of a sample with as many answers: each is one answer's.
class Lists {
 public:
  Lists(const JsonFields& sample, bool several) : sample_(sample), several_(several) {}

  std::string where(const char* key, std::size_t answer) const {
    return several_ ? fmt::format("{}: {}.{}", sample_.where(), key, answer)
                    : fmt::format("{}: {}", sample_.where(), key);
  }
  const Json& of(const char* key, std::size_t answer) const {
    return several_ ? sample_.any(key)[answer] : sample_.any(key);
  }
  // Throws for a list of another length than that of the answers.
  void check(const char* key, std::size_t answers) const {
    if (!several_ || !sample_.has(key)) return;
    if (const std::size_t found = sample_.array(key).size(); found != answers)
      fail(ErrorKind::kData, "{}: {} has {} entries, and there are {} answers; needs one for each",
           sample_.where(), key, found, answers);
  }

 private:
  const JsonFields& sample_;
  bool several_;
};

// One of two keys of a sample.
const char* either(const JsonFields& sample, const char* one, const char* other) {
  if (sample.has(one) == sample.has(other))
    fail(ErrorKind::kData, "{}: has {} of {} and {}; needs one of them", sample.where(),
         sample.has(one) ? "both" : "neither", one, other);
  return sample.has(one) ? one : other;
}

void read_prompt(const JsonFields& sample, bool as_ids, std::int64_t vocab_size,
                 RolloutLine& line) {
  if (as_ids) {
    line.prompt_ids = ids_of(sample.any("prompt_ids"), sample.where() + ": prompt_ids", vocab_size);
    return;
  }
  if (sample.has("prompt_ids"))
    fail(ErrorKind::kData, "{}: has prompt_ids without completion_ids; needs both or neither",
         sample.where());
  add_side(sample, "prompt", Role::kUser, line.prompt);
  if (line.prompt.empty())
    fail(ErrorKind::kData, "{}: prompt has no message; needs one or more", sample.where());
}

Conversation answer_of(const Json& value, const std::string& what, const std::string& key) {
  Json wrapped = Json::object();
  wrapped[key] = value;
  Conversation answer;
  add_side(JsonFields(wrapped, what), key.c_str(), Role::kAssistant, answer);
  if (std::ranges::none_of(answer, &Message::trained))
    fail(ErrorKind::kData, "{}: {} has no answer of the assistant after the prompt", what, key);
  return answer;
}

// A group is known by its key or else by its prompt.
std::string group_of(const JsonFields& sample, bool as_ids) {
  if (!sample.has("group")) return "prompt " + sample.any(as_ids ? "prompt_ids" : "prompt").dump();
  const Json& group = sample.any("group");
  if (!group.is_string() && !group.is_number_integer())
    fail(ErrorKind::kData, "{}: group is {}; needs a string or a whole number", sample.where(),
         formats::shown_json(group));
  return "group " + group.dump();
}

}  // namespace

bool has_rollouts(std::string_view json, const std::string& what) {
  const Json sample = parse_json(json, what);
  if (!sample.is_object() || sample.contains("chosen") || sample.contains("label")) return false;
  return std::ranges::any_of(std::array{"reward", "rewards", "completions", "completion_ids"},
                             [&](const char* key) { return sample.contains(key); });
}

RolloutLine read_rollouts(std::string_view json, const std::string& what, std::int64_t vocab_size) {
  const Json parsed = parse_json(json, what);
  const JsonFields sample(parsed, what);
  refuse_keys(sample, {"tools", "functions", "system", "completion_mask", "response_mask",
                       "loss_mask", "env_mask", "advantages", "token_level_rewards"});
  const bool several = either(sample, "rewards", "reward") == std::string_view("rewards");
  const bool as_ids = sample.has("completion_ids");
  const char* const texts = several ? "completions" : "completion";
  const char* const answers = as_ids ? "completion_ids" : texts;
  const Lists lists(sample, several);
  const std::size_t count = several ? sample.array(answers).size() : 1;
  if (count == 0)
    fail(ErrorKind::kData, "{}: {} is empty; needs one answer or more", what, answers);
  for (const char* key : {"rewards", "logprobs", "ref_logprobs"}) lists.check(key, count);
  RolloutLine line;
  read_prompt(sample, as_ids, vocab_size, line);
  const std::vector<double> rewards = several
                                          ? numbers_of(sample.any("rewards"), what + ": rewards")
                                          : std::vector{sample.number("reward")};
  for (std::size_t i = 0; i < count; ++i) {
    Rollout& one = line.answers.emplace_back(Rollout{.reward = rewards[i]});
    const Json& answer = lists.of(answers, i);
    if (as_ids)
      one.ids = ids_of(answer, lists.where(answers, i), vocab_size);
    else
      one.answer = answer_of(answer, what, several ? fmt::format("{}.{}", texts, i) : texts);
    if (sample.has("logprobs"))
      one.log_probs = log_probs_of(lists.of("logprobs", i), lists.where("logprobs", i));
    if (sample.has("ref_logprobs"))
      one.reference = log_probs_of(lists.of("ref_logprobs", i), lists.where("ref_logprobs", i));
  }
  if (!several || sample.has("group")) line.group = group_of(sample, as_ids);
  return line;
}

std::string print(const RolloutNumbers& numbers) {
  const auto has = [](const std::vector<double>& list) { return list.empty() ? 0.0 : 1.0; };
  const std::vector<double> begin = {has(numbers.log_probs), has(numbers.reference)};
  std::string bytes;
  for (const std::vector<double>* list :
       {&begin, &numbers.groups, &numbers.rewards, &numbers.log_probs, &numbers.reference})
    bytes.append(reinterpret_cast<const char*>(list->data()), list->size() * sizeof(double));
  return bytes;
}

RolloutFile::RolloutFile(const Path& dataset, const std::string& split,
                         const text::TokenFile& tokens)
    : file_(dataset / (split + "_rollouts.f64")),
      documents_(static_cast<std::size_t>(tokens.documents())) {
  const std::size_t found = file_.bytes().size() / sizeof(double);
  if (found >= 2) {
    log_probs_ = part(0, 1)[0] != 0 ? static_cast<std::size_t>(tokens.tokens()) : 0;
    reference_ = part(1, 1)[0] != 0 ? static_cast<std::size_t>(tokens.tokens()) : 0;
  }
  const std::size_t needed = 2 + 2 * documents_ + log_probs_ + reference_;
  if (file_.bytes().size() != needed * sizeof(double))
    fail(ErrorKind::kData, "{}: has {} bytes, and its data set needs {}; prepare the data again",
         (dataset / (split + "_rollouts.f64")).string(), file_.bytes().size(),
         needed * sizeof(double));
}

std::span<const double> RolloutFile::part(std::size_t first, std::size_t count) const {
  return {reinterpret_cast<const double*>(file_.bytes().data()) + first, count};
}

}  // namespace trireme::chat
