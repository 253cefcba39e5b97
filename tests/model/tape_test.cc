#include "trireme/model/account/tape.h"

#include <gtest/gtest.h>

#include "trireme/base/error.h"

namespace trireme::model::tape_test {
namespace {

TEST(Held, IsGivenBackOrKept) {
  Tape tape;
  {
    Held gone(tape, 5), stays(tape, 3);
    EXPECT_EQ(tape.live(), 8);
    gone.give();
    stays.keep();
    EXPECT_THROW(stays.give(), Error);
  }
  EXPECT_EQ(tape.live(), 3);
  EXPECT_EQ(tape.most(), 8);
  EXPECT_THROW({ Held forgotten(tape, 1); }, Error);
}

}  // namespace
}  // namespace trireme::model::tape_test
