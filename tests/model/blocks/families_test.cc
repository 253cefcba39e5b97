// Every family has a model and blocks.
#include "trireme/model/blocks/families.h"

#include <gtest/gtest.h>

#include "trireme/model/families/families.h"

namespace trireme::blocks::families_test {
namespace {

TEST(Families, AllAreDescribedAndBuilt) {
  for (const config::FamilyInfo& one : config::families()) {
    const model::FamilyModel& model = model::family_model(one.family);
    EXPECT_EQ(model.family, one.family);
    EXPECT_TRUE(model.describe != nullptr && model.loss != nullptr) << one.name;
    EXPECT_TRUE(is_built(one.family)) << one.name;
  }
}

}  // namespace
}  // namespace trireme::blocks::families_test
