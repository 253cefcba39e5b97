// What the tokens of a micro-batch say of its answers, on all ranks of a sequence.
#pragma once

#include <cstdint>
#include <vector>

#include "trireme/comm/group.h"
#include "trireme/config/sections/preference.h"

namespace trireme::blocks {

// Numbers of a token. kRatio and kOldRatio are its log-probability less those of the reference and of the policy that
// sampled; the last three are a policy loss's.
enum AnswerNumber : std::uint8_t { kCode, kLogProb, kRatio, kOldRatio, kAdvantage, kReward };

// A token of an answer.
struct AnswerToken {
  std::int64_t rank, place;   // among the ranks of a sequence, and on this rank
  std::int64_t answer, mark;  // by config::answer_code, numbered over all rows
};

class Answers {
 public:
  // `inputs`: losses of tokens, codes, and the rest of model::preference_inputs(), [samples, tokens]. Collective over the
  // group, if there is one.
  Answers(const std::vector<at::Tensor>& inputs, comm::Group* group);

  // Answers or comparisons of all rows.
  std::int64_t count() const { return first_.back(); }

  // Calls body(AnswerToken) for each of them, in the order of ranks and places.
  template <typename Body>
  void for_tokens(const Body& body) const {
    for (std::int64_t rank = 0; rank < numbers_.size(0); ++rank) {
      const at::Tensor own = numbers_[rank][kCode];
      const double* const codes = own.data_ptr<double>();
      for (std::int64_t i = 0; i < own.numel(); ++i)
        if (const auto code = static_cast<std::int64_t>(codes[i]); code != 0)
          body(AnswerToken{.rank = rank,
                           .place = i,
                           .answer = first_[i / tokens_] + code / config::kAnswers,
                           .mark = code % config::kAnswers});
    }
  }
  double number(const AnswerToken& token, AnswerNumber number) const {
    return data_[(token.rank * numbers_.size(1) + number) * numbers_.size(2) + token.place];
  }

  // The derivative by each token of a rank, [tokens] in fp64 on the CPU, 0 for those of no answer: slope(AnswerToken) is
  // called for the tokens of all ranks, in the order of for_tokens.
  template <typename Slope>
  at::Tensor slopes(int rank, const Slope& slope) const {
    const at::Tensor all = zeros();
    auto* const own = all.data_ptr<double>();
    for_tokens([&](const AnswerToken& token) {
      const double value = slope(token);
      if (token.rank == rank) own[token.place] = value;
    });
    return all;
  }

 private:
  at::Tensor zeros() const;

  at::Tensor numbers_;  // [ranks, numbers, tokens] in fp64 on the CPU
  const double* data_;
  std::int64_t tokens_;              // of a row, on a rank
  std::vector<std::int64_t> first_;  // answer of each row, and all of them
};

}  // namespace trireme::blocks
