// A family with its keys, and its samples.
#include "trireme/base/error.h"
#include "trireme/config/families.h"
#include "trireme/config/pixels.h"
#include "trireme/config/resolve/resolve_conversations.h"
#include "trireme/config/rules/rule_lists.h"
#include "trireme/config/rules/templates.h"
#include "trireme/config/sections/chat.h"
#include "trireme/config/synthetic.h"

namespace trireme::config {
namespace {

// Keys that the family has no use for are left as they are.
void check_idle_keys(const Job& job) {
  for (const Difference& key : diff(Job(), job))
    if (!uses(job.model.family, key.key))
      fail(ErrorKind::kUsage, "{}={}: family {} does not use it; leave it out", key.key, key.after,
           name(job.model.family));
}

constexpr auto kPacks = [](const FamilyInfo& one) { return one.packs_conversations; };

bool reads_chat(const Job& job) {
  return info(job).reads_tokens && reads_conversations(job.data.source);
}
void check_packs(const Job& job) {
  if (!kPacks(info(job)))
    fail(ErrorKind::kUsage, "data.source={}: family {} does not pack conversations; {} do",
         job.data.source == DataSource::kChat ? "chat" : "preferences", name(job.model.family),
         names_where(kPacks));
}

void check_whole_answers(const Job& job) {
  if (parse_chat(job.data.chat).longer == Chat::Long::kSplit)
    fail(ErrorKind::kUsage,
         "data.chat={}: long=split divides answers, which are compared as a whole; use long=cut, "
         "or raise model.seq_len",
         job.data.chat);
}

constexpr auto kRewards = [](const Job& job) { return rewards_answers(job.preference.loss); };

void check_cap(const Job& job) {
  const auto [low, high] = job.preference.clip;
  if (job.preference.loss == PreferenceLoss::kCispo && high < 1)
    fail(ErrorKind::kUsage,
         "preference.clip=[{}, {}] with preference.loss=cispo: the second number is the largest "
         "ratio, and the model begins with the ratio 1; set preference.clip=[0, 5], or leave it "
         "out",
         low, high);
}

}  // namespace

std::vector<Rule> key_rules() {
  return {
      {.id = "compute", .fill = [](Job& job, const Given&) { choose_compute(job); }},
      {"family-keys", check_idle_keys},
      {"chat-source", only_with("data.chat", "data.source=chat|preferences"),
       [](const Job& job) { return !info(job).tokenizes_questions; }},
      {"preference-source", only_with("preference.*", "data.source=preferences")},
      {"chat-family", check_packs, reads_chat},
      {"chat-path",
       refused("data.source with data.path=", "conversations are read from files",
               "set data.path to a .jsonl file of conversations, or a directory of them"),
       reads_chat},
      {"text-source",
       refused("data.source", "{model.family} reads tokens",
               "set data.source=text, chat, preferences, words or affine"),
       [](const Job& job) { return info(job).reads_tokens && !is_text(job.data.source); }},
      {"made-text",
       refused("data.path,data.tokenizer,data.documents", "synthetic text does not use it",
               "leave it out, or set data.source=text"),
       [](const Job& job) { return info(job).reads_tokens && !reads_text(job.data.source); }},
      {"chat", [](const Job& job) { parse_chat(job.data.chat); }, reads_chat},
      {.id = "conversations",
       .fill =
           [](Job& job, const Given&) {
             if (reads_chat(job)) resolve_conversations(job);
           }},
  };
}

std::vector<Rule> model_rules() {
  return {
      {"pixels", [](const Job& job) { pixel_scale(job); },
       [](const Job& job) { return uses(job.model.family, "vision.pixels"); }},
      {"simpo-gamma", only_with("preference.gamma", "preference.loss=simpo")},
      {"dpo-smoothing", only_with("preference.label_smoothing", "preference.loss=dpo")},
      {"kto-weights", only_with("preference.label_weights", "preference.loss=kto")},
      {"compared-beta", only_with("preference.beta", "preference.loss=dpo|ipo|simpo|orpo|kto")},
      {"policy-keys", only_with("preference.clip,preference.kl,preference.scale",
                                "preference.loss=grpo|bnpo|dr_grpo|dapo|cispo|gspo")},
      {"dr-grpo-tokens", only_with("preference.answer_tokens", "preference.loss=dr_grpo")},
      {.id = "clip",
       .check = check_cap,
       .when = kRewards,
       .fill =
           [](Job& job, const Given&) {
             Preference& policy = job.preference;
             if (!kRewards(job)) return;
             if (policy.clip == Preference{}.clip) policy.clip = usual_clip(policy.loss);
             if (policy.loss == PreferenceLoss::kDrGrpo && policy.answer_tokens == 0)
               policy.answer_tokens = job.model.seq_len;
           }},
      {"whole-answers", check_whole_answers,
       [](const Job& job) { return job.data.source == DataSource::kPreferences; }},
      {"reference", refused("preference.reference", "{preference.loss} has no reference"),
       [](const Job& job) { return !uses_reference(job.preference.loss); }},
      {"reference-noise",
       refused("model.dropout with data.source=preferences",
               "{preference.loss} compares the model with itself without noise",
               "set model.dropout=0"),
       [](const Job& job) { return uses_reference(job.preference.loss); }},
  };
}

}  // namespace trireme::config
