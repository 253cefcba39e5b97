// GPT-NeoX and Pythia.
#include <cmath>
#include <vector>

#include "trireme/base/error.h"
#include "trireme/config/families.h"
#include "trireme/config/fields/field_kinds.h"
#include "trireme/config/head_width.h"
#include "trireme/config/rules/shared_rules.h"
#include "trireme/families/neox/keys_rope.h"

namespace trireme::config {

std::vector<Field> neox_fields() {
  return {
      of_weights(number(KEY(neox.rotary_fraction),
                        "Share of each head's channels that rotary positions turn.", from(0, 1))),
      of_weights(boolean(KEY(neox.parallel_residual),
                         "Attention and feed-forward layers read the same activation, and their "
                         "results are added at once. false: one after the other.")),
      of_weights(choice(KEY(neox.activation), "Activation of the feed-forward layers.",
                        {{"gelu", Activation::kGelu}, {"gelu_tanh", Activation::kGeluTanh}})),
  };
}
namespace {

void check_rotated(const Job& job) {
  const std::int64_t width = head_width(job.model), rotated = rotated_channels(job);
  if (rotated % 2 == 0) return;
  // The quotient may be a little less than these channels.
  Job even = job;
  even.neox.rotary_fraction = static_cast<double>(rotated + 1) / static_cast<double>(width);
  while (rotated_channels(even) == rotated)
    even.neox.rotary_fraction = std::nextafter(even.neox.rotary_fraction, 2.0);
  fail(ErrorKind::kUsage,
       "neox.rotary_fraction={} of {} channels a head are {}, which is odd; rotary positions turn "
       "pairs, so set neox.rotary_fraction={}",
       job.neox.rotary_fraction, width, rotated, even.neox.rotary_fraction);
}

std::vector<Rule> neox_rules() {
  return joined({language_rules(), {{"rotated-channels", check_rotated}}});
}

}  // namespace

FamilyInfo neox_family() {
  FamilyInfo family = language_model({.family = "neox", .rotary = true});
  family.about = "GPT-NeoX, Pythia";
  family.keys =
      "model.layers,model.hidden,model.heads,model.kv_heads,model.ffn,model.vocab,model.seq_len,"
      "model.tied,model.norm_eps,model.rope_theta,model.init_std,neox.*";
  family.rules = neox_rules;
  family.fp16_on_cpu = false;
  return family;
}

}  // namespace trireme::config
