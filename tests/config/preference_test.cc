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
