#include "trireme/train/run/bad_samples.h"

#include <fmt/format.h>

#include <sstream>
#include <vector>

#include "trireme/config/synthetic.h"
#include "trireme/model/blocks/tower_features.h"

namespace trireme::train {
namespace {

std::string lines_of(const std::vector<std::string>& reasons) {
  std::string text;
  for (const std::string& reason : reasons) text += reason + '\n';
  return text;
}

}  // namespace

bool BadSamples::possible() const {
  return !config::files_of(job_.data.source).empty() || !job_.vlm.features.empty();
}

void BadSamples::report(std::int64_t step) {
  report(step, "bad sample", job_.vlm.pack ? "skip" : "skip, another replaces it",
         lines_of(sources_.train->bad()) + lines_of(sources_.held_out->bad()));
  report(step, "damaged feature", "recomputed", lines_of(blocks::damaged_features(model_)));
}

void BadSamples::report(std::int64_t step, const char* kind, const char* action,
                        const std::string& own) {
  const auto say = [&](const std::string& cause) {
    train::notify(callbacks_, [&](Callback& callback) {
      callback.on_fault(
          {.kind = kind, .step = step, .op = "data", .cause = cause, .action = action});
    });
  };
  const std::size_t before = reported_.size();
  for (const std::string& of_rank : world_.exchange(own)) {
    std::istringstream lines(of_rank);
    for (std::string reason; std::getline(lines, reason);)
      if (reported_.insert(reason).second && reported_.size() <= kNamed) say(reason);
  }
  if (reported_.size() > kNamed && reported_.size() > before)
    say(fmt::format("{} in all by now, of which the first {} were named", reported_.size(),
                    kNamed));
}

}  // namespace trireme::train
