#include "trireme/config/sections/chat.h"

#include <gmock/gmock.h>

#include "trireme/base/error.h"
#include "trireme/config/resolve/resolve.h"

namespace trireme::config::chat_test {
namespace {

using testing::HasSubstr;

std::string chat_refusal(const std::vector<std::string>& sets) {
  Job job;
  try {
    for (const std::string& set : sets) apply_set(job, set);
    resolve(job, 1, {.vocab = 256});
  } catch (const Error& error) {
    return error.what();
  }
  return "taken";
}

TEST(Chat, IsATemplateAndOptions) {
  EXPECT_EQ(parse_chat(""), Chat{});
  EXPECT_EQ(parse_chat("long=cut"), (Chat{.longer = Chat::Long::kCut}));
  const Chat all{
      .shape = "llama3.2", .date = "2026-03-09", .longer = Chat::Long::kSplit, .forbid = true};
  EXPECT_EQ(print(all), "llama3.2 date=2026-03-09 long=split special=forbid");
  EXPECT_EQ(parse_chat(print(all)), all);
  for (const char* text :
       {"a b", "long=drop", "date=2026-13-01", "date=2026-02-30", "date=9 Mar", "special=allow"})
    EXPECT_THROW(parse_chat(text), Error) << text;
}

TEST(Chat, JobsAreResolvedWithDocuments) {
  Job job;
  for (const char* set : {"data.source=chat", "data.path=x.jsonl"}) apply_set(job, set);
  const Job resolved = resolve(job, 1, {.vocab = 256});
  EXPECT_EQ(resolved.data.chat, "auto");
  EXPECT_TRUE(resolved.data.documents);
  EXPECT_EQ(resolve(resolved, 1, {.vocab = 256}), resolved);
}

TEST(Chat, KeysWithoutAMeaningAreRefused) {
  EXPECT_THAT(chat_refusal({"data.chat=llama3"}),
              HasSubstr("set data.source=chat or preferences, or leave it out"));
  EXPECT_THAT(chat_refusal({"data.source=chat"}), HasSubstr("set data.path to a .jsonl file"));
  EXPECT_THAT(chat_refusal({"data.source=chat", "data.path=x", "data.chat=llama3 long=on"}),
              HasSubstr("\"long=on\" is no option"));
  EXPECT_THAT(chat_refusal({"model.family=hnet", "data.source=chat", "data.path=x"}),
              HasSubstr("gpt, llama and neox do"));
}

}  // namespace
}  // namespace trireme::config::chat_test
