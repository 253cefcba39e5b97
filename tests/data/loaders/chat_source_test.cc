#include "trireme/data/loaders/tokens/chat_source.h"

#include <gmock/gmock.h>

#include <map>

#include "tests/harness/chats.h"
#include "trireme/base/error.h"
#include "trireme/data/chat/pack.h"
#include "trireme/data/loaders/tokens/token_loader.h"

namespace trireme::loaders::chat_source_test {
namespace {

using Long = config::Chat::Long;
using testing::HasSubstr;

class ChatSourceTest : public testing::Test {
 protected:
  config::Job job(std::int64_t seq_len, const std::string& chat = "phi4_mini") {
    config::Job job;
    job.model.vocab = 256;
    job.model.seq_len = seq_len;
    job.data.source = config::DataSource::kChat;
    job.data.chat = chat;
    return job;
  }
  // Documents of these many tokens, each 10 times its number plus its place.
  text::TokenFile counting(const std::vector<std::int64_t>& lengths) {
    text::TokenFileWriter writer(directory_ / "counting", DType::kU8);
    for (std::size_t k = 0; k < lengths.size(); ++k) {
      std::vector<std::int32_t> ids;
      for (std::int64_t i = 0; i < lengths[k]; ++i)
        ids.push_back(static_cast<std::int32_t>(10 * static_cast<std::int64_t>(k) + i));
      writer.add_document(ids);
    }
    writer.finish();
    return text::TokenFile(directory_ / "counting");
  }

  harness::ScratchDirectory directory_;
};

// The examples of TRL's documentation: five, two, three and one places in rows of four.
TEST_F(ChatSourceTest, RowsAreBestFit) {
  const text::TokenFile tokens = counting({6, 3, 4, 2});
  using Row = std::vector<chat::PackedPiece>;
  EXPECT_EQ(chat::packed_documents(tokens, 4, Long::kCut),
            (std::vector<Row>{{{0, 0, 4}}, {{2, 0, 3}, {3, 0, 1}}, {{1, 0, 2}}}));
  EXPECT_EQ(chat::packed_documents(tokens, 4, Long::kSplit),
            (std::vector<Row>{{{0, 0, 4}}, {{2, 0, 3}, {0, 4, 1}}, {{1, 0, 2}, {3, 0, 1}}}));
  try {
    chat::packed_documents(tokens, 4, Long::kRefuse);
    FAIL() << "a conversation was cut";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("1 of 4 conversations are longer, up to 5 tokens"));
  }
}

// Every trained token is a target once an epoch, after the token before it, and none besides.
TEST_F(ChatSourceTest, TargetsAreTheAnswers) {
  harness::Chats chats;
  for (int i = 0; i < 23; ++i)
    chats.emplace_back(std::string(1 + i % 7, 'q'), std::string(1 + i % 5, 'a'));
  const text::Dataset dataset = harness::prepared_chats(directory_, "set", chats, 4);
  const Sources sources = open_chat(job(128), directory_ / "set", Evaluated::kHeldOut);
  for (const Source* source : {sources.train.get(), sources.held_out.get()}) {
    const bool training = source == sources.train.get();
    const text::TokenFile& loss = training ? *dataset.train_loss : *dataset.val_loss;
    std::int64_t trained = 0;
    std::vector<std::int32_t> marks(static_cast<std::size_t>(loss.tokens()));
    loss.read(0, std::span<std::int32_t>(marks));
    for (const std::int32_t mark : marks) trained += mark;
    const auto batch = source->batch(0, source->samples());
    EXPECT_EQ(batch[1].ne(kIgnoredTarget).sum().item<std::int64_t>(), trained);
    EXPECT_EQ(source->weight(0, source->samples()), trained);
    double sum = 0;
    for (std::int64_t row = 0; row < source->samples(); ++row) sum += source->weight(row, 1);
    EXPECT_EQ(sum, trained);
    const auto *token = batch[0].data_ptr<std::int64_t>(),
               *target = batch[1].data_ptr<std::int64_t>(),
               *position = batch[2].data_ptr<std::int64_t>();
    for (std::int64_t i = 0; i < batch[0].numel(); ++i) {
      if (i % 128 == 0) {
        EXPECT_EQ(position[i], 0);
      }
      if (target[i] == kIgnoredTarget) continue;
      EXPECT_GT(position[i], 0) << "a conversation begins with a question";
      if (position[i + 1] == position[i] + 1) {
        EXPECT_EQ(target[i], token[i + 1]);
      }
    }
  }
}

// Cut to 32 places, the long one is a question alone.
TEST_F(ChatSourceTest, PartsWithoutAnAnswerAreLeftOut) {
  const std::string question(60, 'q');
  harness::prepared_chats(directory_, "some", {{question, "a"}, {"b", "c"}});
  const Sources some =
      open_chat(job(32, "phi4_mini long=cut"), directory_ / "some", Evaluated::kHeldOut);
  ASSERT_EQ(some.train->samples(), 1);
  EXPECT_GT(some.train->weight(0, 1), 0);
  harness::prepared_chats(directory_, "none", {{question, "a"}});
  try {
    open_chat(job(32, "phi4_mini long=cut"), directory_ / "none", Evaluated::kHeldOut);
    FAIL() << "nothing has loss";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("model.seq_len=32: all answers lie beyond it"));
  }
}

TEST_F(ChatSourceTest, AnySplitOfABatchIsTheSame) {
  harness::Chats chats;
  for (int i = 0; i < 40; ++i) chats.emplace_back(std::to_string(i), "a");
  harness::prepared_chats(directory_, "set", chats);
  const Sources sources = open_chat(job(64), directory_ / "set", Evaluated::kHeldOut);
  const std::int64_t samples = sources.train->samples();
  const auto whole = sources.train->batch(3, samples);
  for (std::int64_t row = 0; row < samples; ++row) {
    const auto one = sources.train->batch(3 + row, 1);
    for (std::size_t input = 0; input < 3; ++input)
      EXPECT_TRUE(one[input].equal(whole[input].narrow(0, row, 1)));
  }
  // After the held-out rows there are empty ones.
  EXPECT_EQ(sources.held_out->samples(), 0);
  EXPECT_EQ(sources.held_out->weight(0, 2), 0);
  EXPECT_EQ(sources.held_out->batch(0, 2)[1].ne(kIgnoredTarget).sum().item<std::int64_t>(), 0);
}

TEST_F(ChatSourceTest, RefusesTokensThatTheModelDoesNotKnow) {
  harness::prepared_chats(directory_, "set", {{"q", "a"}});
  config::Job small = job(128);
  small.model.vocab = 100;
  const Sources sources = open_chat(small, directory_ / "set", Evaluated::kHeldOut);
  EXPECT_THROW(sources.train->batch(0, 1), Error);
}

}  // namespace
}  // namespace trireme::loaders::chat_source_test
