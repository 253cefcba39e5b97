#include "trireme/model/loss_label.h"

#include <gtest/gtest.h>

#include "trireme/config/families.h"

namespace trireme::model {
namespace {

LossLabel label_of(const char* family, std::initializer_list<const char*> sets = {}) {
  config::Job job;
  config::apply_set(job, std::string("model.family=") + family);
  for (const char* set : sets) config::apply_set(job, set);
  return loss_label(job);
}

TEST(LossLabel, IsNatsPerTokenOfTextAlone) {
  for (const char* family : {"gpt", "llama", "hnet", "vlm", "arrcoc"})
    EXPECT_EQ(label_of(family).unit, kNatsPerToken) << family;
  for (const char* family : {"vit", "probe", "clip"})
    EXPECT_EQ(label_of(family).unit, "nats/sample") << family;
  for (const char* family : {"jepa", "jepa_ac"}) EXPECT_EQ(label_of(family).unit, "L1") << family;
}

TEST(LossLabel, NamesWhatIsAdded) {
  EXPECT_EQ(label_of("jepa").text(), "L1 distance of features, L1");
  EXPECT_EQ(label_of("hvjepa").text(), "L1 distance of features + ratio loss");
  EXPECT_EQ(label_of("hvjepa", {"chunk.mode=fixed", "vicreg.weight=0.1"}).text(),
            "L1 distance of features + VICReg");
  EXPECT_EQ(label_of("clip", {"contrastive.loss=siglip"}).name, "sigmoid loss of pairs");
  EXPECT_EQ(label_of("probe", {"probe.lr=1,0.1"}).name, "cross-entropy, sum of 2 probes");
  EXPECT_EQ(label_of("vit").suffix(), " nats/sample");
  EXPECT_EQ(label_of("hvjepa").suffix(), "");
}

}  // namespace
}  // namespace trireme::model
