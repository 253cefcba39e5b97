#include "trireme/train/bad_samples.h"

#include <fmt/format.h>

#include <sstream>

namespace trireme::train {
namespace {

std::string lines_of(const data::Source& source) {
  std::string text;
  for (const std::string& reason : source.bad()) text += reason + '\n';
  return text;
}

}  // namespace

void BadSamples::tell(std::int64_t step) {
  const auto say = [&](const std::string& cause) {
    train::tell(callbacks_, [&](Callback& callback) {
      callback.on_fault({.kind = "bad sample",
                         .step = step,
                         .op = "data",
                         .cause = cause,
                         .action = "skip, another stands in"});
    });
  };
  const std::size_t before = told_.size();
  for (const std::string& of_rank :
       world_.exchange(lines_of(*sources_.train) + lines_of(*sources_.held_out))) {
    std::istringstream lines(of_rank);
    for (std::string reason; std::getline(lines, reason);)
      if (told_.insert(reason).second && told_.size() <= kNamed) say(reason);
  }
  if (told_.size() > kNamed && told_.size() > before)
    say(fmt::format("{} in all by now, of which the first {} were named", told_.size(), kNamed));
}

}  // namespace trireme::train
