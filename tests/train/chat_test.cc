// Fine-tuning on conversations: only answers are learned, under every layout, and packed ones do not see each other.
#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/harness/chats.h"
#include "tests/harness/small_jobs.h"
#include "tests/harness/whole_model.h"
#include "trireme/data/loaders/source.h"
#include "trireme/data/loaders/tokens/token_loader.h"

namespace trireme::train::chat_test {
namespace {

using harness::Chats;
using harness::Sets;
using harness::operator+;

Sets on(const harness::ScratchDirectory& directory, const std::string& name, std::int64_t seq_len) {
  return {"data.source=chat", "data.path=" + (directory / name).string(), "data.chat=phi4_mini",
          "model.vocab=256", fmt::format("model.seq_len={}", seq_len)};
}

// Questions that nothing predicts, and the letter after each.
Chats next_letters() {
  Chats chats;
  for (char letter = 'a'; letter < 'z'; ++letter)
    chats.emplace_back(std::string(1, letter), std::string(1, static_cast<char>(letter + 1)));
  return chats;
}

TEST(ChatTraining, LearnsTheAnswersAlone) {
  const harness::ScratchDirectory directory;
  harness::prepared_chats(directory, "letters", next_letters());
  config::Job job = harness::small_llama(
      DType::kF32, on(directory, "letters", 96) + Sets{"run.global_batch=8", "run.micro_batch=8",
                                                       "run.steps=300", "optim.lr=1e-2",
                                                       "optim.weight_decay=0"});
  // With loss on the questions, a fifth of ln 25, 0.64 nats, would be left.
  constexpr double kLearned = 0.1;
  const harness::JobTrace trace = harness::run_job(
      job, 300, [](const harness::JobTrace& so_far) { return so_far.losses.back() < kLearned; });
  EXPECT_GT(trace.losses.front(), 4);
  EXPECT_LT(trace.losses.back(), kLearned) << trace.losses.size() << " steps";
}

// The loss is divided by the trained tokens of the global batch: micro-batches of unlike weights add up.
TEST(ChatTraining, EveryLayoutTrainsTheSameModel) {
  const harness::ScratchDirectory directory;
  Chats chats;
  for (int i = 0; i < 12; ++i)
    chats.emplace_back(std::string(1 + 3 * i % 11, 'q'), std::string(1 + 5 * i % 13, 'a'));
  harness::prepared_chats(directory, "mixed", chats);
  for (const char* family : {"llama", "gpt"})
    harness::expect_parity(
        [&](const Sets& layout) {
          Sets sets = on(directory, "mixed", 128) + layout;
          if (std::string(family) == "gpt")
            sets = Sets{"model.family=gpt", "model.kv_heads=0"} + sets;
          return harness::small_llama(DType::kF64, sets);
        },
        {{"four micro-batches as one", {"run.micro_batch=4"}},
         {"dp 4", {"parallel.dp_shard=4"}},
         {"ZeRO-3, pp 2", {"parallel.dp_shard=2", "parallel.pp=2", "parallel.zero=3"}},
         {"tp 2, cp 2", {"parallel.tp=2", "parallel.cp=2"}}});
}

// Another first conversation of a row changes nothing of the second, to the bit.
TEST(ChatTraining, PackedConversationsDoNotSeeEachOther) {
  const harness::ScratchDirectory directory;
  const std::string long_one(20, 'x'), other(20, 'y');
  harness::prepared_chats(directory, "one", {{long_one, "first"}, {"hello", "second"}});
  harness::prepared_chats(directory, "other", {{other, "fifth"}, {"hello", "second"}});
  const auto batch_of = [&](const std::string& name) {
    const config::Job job = config::resolve(
        harness::small_llama(DType::kF32, on(directory, name, 160)), 1, {.vocab = 256});
    return std::pair(job, loaders::open_sources(job, job.data.path).train->batch(0, 1));
  };
  const auto [job, one] = batch_of("one");
  const auto [job_of_other, changed] = batch_of("other");
  const std::int64_t places = 160;
  std::int64_t begin = 1;  // of the second conversation
  while (one[2][0][begin].item<std::int64_t>() != 0) ++begin;
  ASSERT_LT(begin, 100);
  ASSERT_FALSE(one[0].equal(changed[0]));
  ASSERT_TRUE(
      one[0].narrow(1, begin, places - begin).equal(changed[0].narrow(1, begin, places - begin)));
  // Loss and gradients of the second alone.
  const auto of_second = [&](std::vector<at::Tensor> batch, bool apart) {
    batch[1] = batch[1].clone();
    batch[1].narrow(1, 0, begin).fill_(loaders::kIgnoredTarget);
    if (!apart) batch[2] = at::arange(places, at::kLong).unsqueeze(0);
    std::int64_t seed = 0;
    harness::WholeModel model(job, [&](const model::ParamSpec& param) {
      at::manual_seed(static_cast<std::uint64_t>(++seed));
      return at::randn(at::IntArrayRef(param.shape)).mul(0.1);
    });
    const at::Tensor loss = harness::WholeModel::loss(model.run(batch));
    loss.backward();
    std::vector<at::Tensor> all = {loss.detach()};
    for (const auto& [name, value] : model.params) all.push_back(value.grad());
    return all;
  };
  const auto expect_bits = [&](bool equal, bool apart) {
    const auto a = of_second(one, apart), b = of_second(changed, apart);
    bool all = true;
    for (std::size_t i = 0; i < a.size(); ++i) all = all && a[i].equal(b[i]);
    EXPECT_EQ(all, equal);
  };
  expect_bits(true, /*apart=*/true);
  expect_bits(false, /*apart=*/false);  // as one text they do
}

}  // namespace
}  // namespace trireme::train::chat_test
