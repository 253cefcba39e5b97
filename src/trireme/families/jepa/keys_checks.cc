#include "trireme/families/jepa/keys_checks.h"

#include "trireme/base/error.h"
#include "trireme/config/rules/shared_rules.h"
#include "trireme/config/rules/templates.h"
#include "trireme/families/jepa/keys_masks.h"

namespace trireme::config {
namespace {

std::int64_t tokens_a_side(const Job& job) { return job.vision.image / job.vision.patch; }

void check_masks(const Job& job) {
  const Jepa& jepa = job.jepa;
  const std::int64_t side = tokens_a_side(job);
  for (const auto& [blocks, scale] : mask_rules(jepa)) {
    const double tokens = scale * static_cast<double>(side * side);
    if (tokens < 1)
      fail(ErrorKind::kUsage,
           "jepa.masks={}: {} of {} x {} tokens of a frame is less than one; raise it to {:.3g} or "
           "more",
           jepa.masks, scale, side, side, 1.0 / static_cast<double>(side * side));
    if (scale >= 1)
      fail(ErrorKind::kUsage,
           "jepa.masks={}: a block of {} covers the frame and leaves no context; lower it",
           jepa.masks, scale);
  }
}

}  // namespace

std::vector<Rule> jepa_rules() {
  const Number side("{vision.image} / {vision.patch} = {} tokens a side",
                    [](const Job& job) { return static_cast<double>(tokens_a_side(job)); });
  return joined(
      {{reads("data.source=squares|clips", "it reads clips"), rotary_tower()},
       tower_rules(),
       {{"predictor-heads", turned_heads("jepa.hidden", "jepa.heads", kTurnsClips)},
        {"context", at_least(side, 2, "one token of a frame leaves no context for its targets",
                             "lower vision.patch or raise vision.image")},
        {"masks", check_masks}}});
}

}  // namespace trireme::config
