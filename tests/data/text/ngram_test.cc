#include "trireme/data/text/ngram.h"

#include <cmath>
#include <random>

#include "tests/formats/scratch.h"

namespace trireme::text::ngram_test {
namespace {

TEST(Ngram, FollowsTheFormulaByHand) {
  // After "ab": a once, b once, 2 types of 2. p(a) = (1 + 2/256) / 4.
  const double zero = (1 + 2.0 / 256) / 4;
  EXPECT_NEAR(bits_per_byte("ab", "a", 0), -std::log2(zero), 1e-12);
  // With one byte of context, "a" was followed by b alone: p(b|a) = (1 + 1 * p(b)) / 2.
  EXPECT_NEAR(bits_per_byte("ab", "ab", 1), (-std::log2(zero) - std::log2((1 + zero) / 2)) / 2,
              1e-12);
  // An unknown context falls back whole: nothing was seen after "b".
  EXPECT_NEAR(bits_per_byte("ab", "ba", 1), -std::log2(zero), 1e-12);
  EXPECT_NEAR(bits_per_byte("", "ab", 3), 8, 1e-12) << "knowing nothing costs 8 bits";
}

TEST(Ngram, ProbabilitiesOfAllBytesAddUpToOne) {
  std::string text;
  std::mt19937 random(5);
  for (int i = 0; i < 3000; ++i) text += "abcde\n"[random() % 6 % (1 + i % 5)];
  for (const int context : {0, 1, 2, 3, 4, 6}) {
    NgramModel model(context);
    model.add(text);
    for (const std::string history : {"", "a", "abcd", "zzzzzz", "\n\na", "aaaaaaab"}) {
      const double before = model.bits(history);
      double sum = 0;
      for (int byte = 0; byte < 256; ++byte)
        sum += std::exp2(before - model.bits(history + static_cast<char>(byte)));
      EXPECT_NEAR(sum, 1, 1e-9) << context << " after " << history;
    }
  }
}

TEST(Ngram, LongerContextsLearnLongerRules) {
  // A cycle of period 2^5 over two letters needs 5 letters of context.
  const std::string cycle = "aaaaabbbbbabbbaabababbaaabaabbab";
  std::string text;
  for (int i = 0; i < 200; ++i) text += cycle;
  double last = 8;
  for (int context = 0; context <= 5; ++context) {
    const double bits = bits_per_byte(text, text, context);
    EXPECT_LT(bits, last) << context;
    last = bits;
  }
  EXPECT_LT(last, 0.05);
  EXPECT_GT(bits_per_byte(text, text, 1), 0.9);
}

TEST(Ngram, DocumentsDoNotTouch) {
  NgramModel apart(2), joined(2);
  apart.add("ab");
  apart.add("cd");
  joined.add("abcd");
  EXPECT_LT(joined.bits("bc"), apart.bits("bc"));
}

TEST(Ngram, RefusesNonsense) {
  formats::refusal([] { NgramModel(-1); }, ErrorKind::kUsage);
  formats::refusal([] { NgramModel(7); }, ErrorKind::kUsage);
  formats::refusal([] { bits_per_byte("a", "", 2); });
}

}  // namespace
}  // namespace trireme::text::ngram_test
