// Rollouts: answers that a policy sampled, with their rewards.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/base/fs.h"
#include "trireme/data/chat/conversation.h"
#include "trireme/data/text/token_file.h"

namespace trireme::chat {

// An answer as messages or, with the prompt, as tokens.
struct Rollout {
  Conversation answer{};
  std::vector<std::int32_t> ids{};
  double reward = 0;
  // Of each token of the answer, under the policy that sampled and under the reference; empty: not given.
  std::vector<double> log_probs{}, reference{};
};

// Answers of a line to one prompt.
struct RolloutLine {
  Conversation prompt{};
  std::vector<std::int32_t> prompt_ids{};
  std::vector<Rollout> answers{};
  // Of a line with one answer: answers with the same key are a group. Lines of several answers have none.
  std::optional<std::string> group{};
};

// Whether a sample is of this kind, by its keys.
bool has_rollouts(std::string_view json, const std::string& what);

// Reads {"prompt", "completions", "rewards"} or {"prompt", "completion", "reward", "group"}, whose group is the prompt
// where the key is missing. prompt_ids and completion_ids (of each answer) take the place of the texts. "logprobs" and
// "ref_logprobs" are one number for each token of each answer. Throws Error{kData} that begins with `what` and names the
// key, also for ids of `vocab_size` and more and for numbers that are not finite.
RolloutLine read_rollouts(std::string_view json, const std::string& what, std::int64_t vocab_size);

// Numbers of a split whose documents are answers.
struct RolloutNumbers {
  std::vector<double> groups, rewards;  // of each document
  // Of each token of the split, 0 for those without a mark; empty: the samples have none.
  std::vector<double> log_probs{}, reference{};
};
// As bytes of SPLIT_rollouts.f64: whether it has each kind of log-probabilities, groups, rewards, log-probabilities.
std::string print(const RolloutNumbers& numbers);

class RolloutFile {
 public:
  // Of the split "train" or "val" with these tokens. Throws Error{kData} naming the file if it does not fit them.
  RolloutFile(const Path& dataset, const std::string& split, const text::TokenFile& tokens);

  std::span<const double> groups() const { return part(2, documents_); }
  std::span<const double> rewards() const { return part(2 + documents_, documents_); }
  std::span<const double> log_probs() const { return part(2 + 2 * documents_, log_probs_); }
  std::span<const double> reference() const {
    return part(2 + 2 * documents_ + log_probs_, reference_);
  }

 private:
  std::span<const double> part(std::size_t first, std::size_t count) const;

  MappedFile file_;
  std::size_t documents_, log_probs_ = 0, reference_ = 0;
};

}  // namespace trireme::chat
