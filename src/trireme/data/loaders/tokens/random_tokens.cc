#include "trireme/data/loaders/tokens/random_tokens.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <random>

#include "trireme/config/sections/preference.h"

namespace trireme::loaders {

std::vector<at::Tensor> random_tokens(std::int64_t first, std::int64_t count, std::int64_t seq_len,
                                      std::int64_t vocab, bool documents) {
  const at::Tensor tokens = at::empty({count, seq_len + 1}, at::TensorOptions().dtype(at::kLong));
  auto* next = tokens.data_ptr<std::int64_t>();
  for (std::int64_t sample = 0; sample < count; ++sample) {
    std::mt19937_64 random(static_cast<std::uint64_t>(first + sample) + 1);
    for (std::int64_t i = 0; i <= seq_len; ++i)
      *next++ = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(vocab));
  }
  std::vector<at::Tensor> batch = {tokens.narrow(1, 0, seq_len).contiguous(),
                                   tokens.narrow(1, 1, seq_len).contiguous()};
  if (!documents) return batch;
  batch.push_back(at::empty({count, seq_len}, tokens.options()));
  auto* position = batch.back().data_ptr<std::int64_t>();
  for (std::int64_t sample = 0; sample < count; ++sample) {
    std::mt19937_64 random(~static_cast<std::uint64_t>(first + sample));
    for (std::int64_t i = 0; i < seq_len; ++i, ++position)
      *position = i == 0 || random() % 16 == 0 ? 0 : position[-1] + 1;
  }
  return batch;
}

void add_answers(std::vector<at::Tensor>& batch, bool rewards) {
  using config::Answer;
  const std::int64_t first = config::answer_code(0, rewards ? Answer::kSampled : Answer::kChosen);
  const std::int64_t second = rewards ? config::answer_code(1, Answer::kSampled)
                                      : config::answer_code(0, Answer::kRejected);
  const at::Tensor answers = at::full_like(batch[0], first);
  const std::int64_t half = answers.size(1) / 2, rest = answers.size(1) - half;
  answers.narrow(1, half, rest).fill_(second);
  batch.push_back(answers);
  batch.push_back(at::zeros(answers.sizes(), at::kDouble));
  if (!rewards) return;
  batch.push_back(at::zeros(answers.sizes(), at::kDouble));
  batch.push_back(at::ones(answers.sizes(), at::kDouble));  // advantages
  batch.back().narrow(1, half, rest).fill_(-1);
  batch.push_back(batch.back().clone());
}

}  // namespace trireme::loaders
