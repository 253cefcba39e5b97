// Records of families: one each, complete, and found by name.
#include "trireme/config/families.h"

#include <gtest/gtest.h>

#include <set>

#include "trireme/base/error.h"

namespace trireme::config::families_test {
namespace {

TEST(Families, EachHasOneRecord) {
  std::set<std::string_view> names;
  const int count = static_cast<int>(families().size());
  for (int number = 0; number < count; ++number) {
    const FamilyInfo& one = info(static_cast<Family>(number));
    EXPECT_EQ(static_cast<int>(one.family), number);
    EXPECT_NE(one.rules, nullptr) << one.name;
    Job job;
    apply_set(job, "model.family=" + std::string(one.name));
    EXPECT_EQ(&info(job), &one);
    names.insert(one.name);
  }
  EXPECT_EQ(names.size(), families().size());
  EXPECT_THROW(info(static_cast<Family>(count)), Error);
}

TEST(Families, PropertiesAgree) {
  for (const FamilyInfo& one : families()) {
    EXPECT_EQ(one.couples_batch != nullptr, !one.couples.empty()) << one.name;
    EXPECT_TRUE(!one.chain || one.decoder) << one.name;
    // The loader cuts token ids alone.
    EXPECT_TRUE(!one.zigzag || one.reads_tokens) << one.name;
    EXPECT_TRUE(!one.packs_conversations || one.reads_tokens) << one.name;
    // Every decoder is a family of its own as well.
    if (one.decoder) {
      EXPECT_EQ(info(decoder_alone(one.family)).decoder->family, one.decoder->family) << one.name;
    }
  }
  EXPECT_EQ(decoder_alone(Family::kVlm), Family::kLlama);
  EXPECT_EQ(decoder_alone(Family::kGpt), Family::kGpt);
  EXPECT_THROW(decoder_alone(Family::kVit), Error);
}

TEST(Families, AreNamedByProperty) {
  EXPECT_EQ(names_where([](const FamilyInfo& one) { return one.writes_text(); }),
            "gpt, llama, neox, hnet, vlm and arrcoc");
  EXPECT_EQ(names_where([](const FamilyInfo& one) { return one.packs_conversations; }),
            "gpt, llama and neox");
  EXPECT_EQ(names_where([](const FamilyInfo& one) { return one.predicts == Predicts::kCaptions; }),
            "clip");
  EXPECT_EQ(names_where([](const FamilyInfo&) { return false; }), "");
}

}  // namespace
}  // namespace trireme::config::families_test
