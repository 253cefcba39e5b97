// Keys of section preference: which loss uses them, and what is refused.
#include "trireme/config/sections/preference.h"

#include <gmock/gmock.h>

#include "tests/config/error_of.h"
#include "trireme/config/job.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/config/resolve/resolve_conversations.h"

namespace trireme::config::preference_test {
namespace {

using testing::HasSubstr;

Job resolved(const std::vector<std::string>& sets) {
  Job job;
  for (const char* set : {"data.source=preferences", "data.path=x.jsonl"}) apply_set(job, set);
  for (const std::string& set : sets) apply_set(job, set);
  return resolve(job, 1, {.vocab = 256});
}

std::string refusal(const std::vector<std::string>& sets) {
  return usage_error_of([&] { resolved(sets); });
}

TEST(Preference, JobsAreResolvedWithDocuments) {
  const Job job = resolved({});
  EXPECT_TRUE(job.data.documents);
  EXPECT_EQ(job.data.chat, "auto");
  EXPECT_EQ(job.preference, Preference{});
  EXPECT_EQ(resolve(job, 1, {.vocab = 256}), job);
}

TEST(Preference, KeysBelongToLosses) {
  resolved({"preference.loss=simpo", "preference.gamma=1"});
  resolved({"preference.label_smoothing=0.1"});
  resolved({"preference.loss=kto", "preference.label_weights=[1.5, 1]"});
  EXPECT_THAT(refusal({"preference.gamma=1"}),
              HasSubstr("set preference.loss=simpo, or leave it out"));
  EXPECT_THAT(refusal({"preference.loss=ipo", "preference.label_smoothing=0.1"}),
              HasSubstr("preference.loss=ipo: it has no effect; set preference.loss=dpo"));
  EXPECT_THAT(refusal({"preference.label_weights=[2, 1]"}),
              HasSubstr("preference.label_weights=[2, 1] with preference.loss=dpo: "));
  EXPECT_THAT(refusal({"preference.loss=orpo", "preference.reference=dir"}),
              HasSubstr("preference.loss=orpo has no reference"));
  EXPECT_THAT(refusal({"preference.beta=0"}), HasSubstr("preference.beta"));
  EXPECT_THAT(refusal({"preference.label_smoothing=0.5"}), HasSubstr("preference.label_smoothing"));
}

// What a policy loss leaves out is that of its paper.
TEST(Preference, PolicyLossesHaveTheirClip) {
  using Pair = std::array<double, 2>;
  const auto clip = [](const char* loss) { return resolved({loss}).preference.clip; };
  EXPECT_EQ(clip("preference.loss=grpo"), (Pair{0.2, 0.2}));
  EXPECT_EQ(clip("preference.loss=dapo"), (Pair{0.2, 0.28}));
  EXPECT_EQ(clip("preference.loss=gspo"), (Pair{3e-4, 4e-4}));
  EXPECT_EQ(clip("preference.loss=cispo"), (Pair{0, 5}));
  EXPECT_EQ(clip("preference.loss=dpo"), (Pair{0, 0}));
  const Job own = resolved({"preference.loss=dapo", "preference.clip=[0.1, 0]"});
  EXPECT_EQ(own.preference.clip, (Pair{0.1, 0}));
  const Job counted = resolved({"preference.loss=dr_grpo"});
  EXPECT_EQ(counted.preference.answer_tokens, counted.model.seq_len);
  EXPECT_FALSE(divides_advantages(counted.preference));
  EXPECT_TRUE(divides_advantages(resolved({"preference.loss=grpo"}).preference));
  EXPECT_FALSE(
      divides_advantages(resolved({"preference.loss=grpo", "preference.scale=none"}).preference));
  EXPECT_TRUE(divides_advantages(
      resolved({"preference.loss=dr_grpo", "preference.scale=group"}).preference));
}

TEST(Preference, KeysOfPolicyLossesBelongToThem) {
  EXPECT_THAT(refusal({"preference.clip=[0.1, 0.1]"}),
              HasSubstr("preference.clip=[0.1, 0.1] with preference.loss=dpo: it has no effect"));
  EXPECT_THAT(refusal({"preference.loss=kto", "preference.kl=0.1"}),
              HasSubstr("set preference.loss=grpo"));
  EXPECT_THAT(refusal({"preference.loss=grpo", "preference.beta=0.2"}),
              HasSubstr("preference.beta=0.2 with preference.loss=grpo: it has no effect"));
  EXPECT_THAT(refusal({"preference.loss=grpo", "preference.answer_tokens=9"}),
              HasSubstr("set preference.loss=dr_grpo"));
  EXPECT_THAT(
      refusal({"preference.loss=cispo", "preference.clip=[0.2, 0.2]"}),
      HasSubstr("preference.clip=[0.2, 0.2] with preference.loss=cispo: the second number"));
  EXPECT_THAT(refusal({"preference.loss=gspo", "model.dropout=0.1"}), HasSubstr("model.dropout"));
}

TEST(Preference, RefusalsSayTheWayOut) {
  EXPECT_THAT(refusal({"data.source=chat", "preference.beta=1"}),
              HasSubstr("preference.beta=1 with data.source=chat: it has no effect"));
  EXPECT_THAT(refusal({"data.path="}), HasSubstr("data.source=preferences with data.path=: "));
  EXPECT_THAT(refusal({"model.dropout=0.1"}), HasSubstr("set model.dropout=0"));
  EXPECT_THAT(refusal({"data.chat=llama3 long=split"}), HasSubstr("use long=cut"));
  EXPECT_THAT(refusal({"model.family=hnet"}), HasSubstr("gpt, llama and neox do"));
  resolved({"model.dropout=0.1", "preference.loss=simpo"});
}

TEST(Preference, TheRunHasTheReference) {
  Job job = resolved({});
  place_reference(job, "/runs/a");
  EXPECT_EQ(job.preference.reference, "/runs/a/reference");
  place_reference(job, "/runs/b");
  EXPECT_EQ(job.preference.reference, "/runs/a/reference");
  Job other = resolved({"preference.loss=orpo"});
  place_reference(other, "/runs/a");
  EXPECT_EQ(other.preference.reference, "");
}

}  // namespace
}  // namespace trireme::config::preference_test
