// trireme-worker choices: the likelihood of each answer to questions, and how often the right one is the likeliest.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <vector>

#include "alone.h"
#include "apps/worker/subcommands.h"
#include "interrupts.h"
#include "trireme/base/clock.h"
#include "trireme/base/error.h"
#include "trireme/base/json.h"
#include "trireme/data/text/questions.h"
#include "trireme/model/blocks/generate.h"

namespace trireme::app {
namespace {

// Share of right answers, and its standard error.
struct Accuracy {
  std::int64_t right = 0, all = 0;

  void add(const std::vector<double>& scores, std::size_t answer) {
    right +=
        std::ranges::max_element(scores) - scores.begin() == static_cast<std::ptrdiff_t>(answer);
    ++all;
  }
  double share() const { return static_cast<double>(right) / static_cast<double>(all); }
  double error() const {
    return all < 2 ? 0 : std::sqrt(share() * (1 - share()) / static_cast<double>(all - 1));
  }
};

}  // namespace

int choices(const Arguments& arguments) {
  const Interrupts interrupts;
  const LoadedModel loaded(arguments.text("checkpoint"),
                           arguments.number<std::int64_t>("context", 0));
  const Path vocabulary = arguments.text("vocabulary");
  const text::Tokenizer tokenizer =
      text::Tokenizer::from_description(read_file(vocabulary), vocabulary.string());
  const std::vector<text::Question> questions = text::read_questions(arguments.text("questions"));
  constexpr double kEvery = 5;  // seconds
  const Stopwatch watch;
  Stopwatch since;
  Accuracy plain, by_length;
  Json found = Json::array();
  for (const text::Question& question : questions) {
    if (interrupts.first() != 0) return 128 + interrupts.first();
    std::vector<double> sums, means;
    for (const text::Continuation& one : text::continuations(question, tokenizer)) {
      sums.push_back(
          blocks::log_likelihood(loaded.model(), one.ids, one.begin, loaded.job().model.seq_len));
      means.push_back(sums.back() / static_cast<double>(one.characters));
    }
    plain.add(sums, question.answer);
    by_length.add(means, question.answer);
    found.push_back({{"log_likelihoods", sums}, {"answer", question.answer}});
    if (since.seconds() < kEvery) continue;
    since.restart();
    fmt::print(stderr, "answered {} of {} questions, {:.0f} s left\n", plain.all, questions.size(),
               watch.seconds() / static_cast<double>(plain.all) *
                   static_cast<double>(static_cast<std::int64_t>(questions.size()) - plain.all));
  }
  fmt::print("{:<14} {}\n{:<14} {:.4f} +- {:.4f}\n{:<14} {:.4f} +- {:.4f}\n{:<14} {:.2f}\n",
             "questions", plain.all, "acc", plain.share(), plain.error(), "acc_norm",
             by_length.share(), by_length.error(), "seconds", watch.seconds());
  if (arguments.has("json"))
    replace_file(arguments.text("json"), Json{{"checkpoint", arguments.text("checkpoint")},
                                              {"questions", plain.all},
                                              {"acc", plain.share()},
                                              {"acc_stderr", plain.error()},
                                              {"acc_norm", by_length.share()},
                                              {"acc_norm_stderr", by_length.error()},
                                              {"answers", std::move(found)}}
                                                 .dump(1) +
                                             "\n");
  return 0;
}

}  // namespace trireme::app
