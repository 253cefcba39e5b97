// H-Nets: byte-level language models that cut their text into chunks.
#include <cstdint>
#include <vector>

#include "trireme/base/error.h"
#include "trireme/config/families.h"
#include "trireme/config/fields/field_kinds.h"
#include "trireme/config/rules/shared_rules.h"
#include "trireme/families/hnet/keys_stages.h"

namespace trireme::config {

std::vector<Field> hnet_fields() {
  return {
      of_weights(text(KEY(hnet.layout),
                      "Blocks of each stage as ENCODER,[INNER],DECODER, nested, such as "
                      "m4,[T1m4,[T26],m4T1],m4. Letters with a count: t (attention), T (attention "
                      "and SwiGLU), m (Mamba-2), M (Mamba-2 and SwiGLU).")),
      of_weights(text(KEY(hnet.hidden),
                      "Width of each stage, comma-separated, outermost first. May not decrease.")),
      of_weights(text(KEY(hnet.heads), "Attention heads of each stage, comma-separated.")),
      of_weights(text(KEY(hnet.ffn),
                      "Width of each stage's feed-forward layers, comma-separated; 0 for a stage "
                      "without them.")),
      inherited(fixed(text(KEY(hnet.ratio),
                           "Target positions per chunk of each stage's router, comma-separated, "
                           "without the innermost stage."))),
      fixed(number(KEY(hnet.ratio_weight), "Weight of the ratio loss, added to the cross-entropy.",
                   from(0, 1e3))),
      fixed(text(KEY(hnet.lr),
                 "Factor of optim.lr for each stage, comma-separated. Empty: 1 for all.")),
      of_weights(text(KEY(hnet.window),
                      "Attention window of each stage in positions, comma-separated, such as "
                      "1023,-1; -1: unlimited. Empty: unlimited for all.")),
  };
}
namespace {

constexpr std::int64_t kMixerShare = 32;  // of the width: heads of 64 in twice of it

// What tp ranks share out of a stage.
void check_shares(const HnetStage& stage, std::size_t s, int tp) {
  const auto enough = [&](const char* key, std::int64_t count) {
    if (tp > count)
      fail(ErrorKind::kUsage,
           "parallel.tp={} is more than {}, hnet.{} of stage {}; a rank needs at least one: "
           "parallel.tp={} or less",
           tp, count, key, s, count);
  };
  const std::int64_t mixers = stage.hidden / kMixerShare;
  if ((stage.has('m') || stage.has('M')) && tp > mixers)
    fail(ErrorKind::kUsage,
         "parallel.tp={} is more than {}, the Mamba-2 heads of stage {} (hnet.hidden={} / {}); a "
         "rank needs at least one: parallel.tp={} or less",
         tp, mixers, s, stage.hidden, kMixerShare, mixers);
  if (stage.has('t') || stage.has('T')) enough("heads", stage.heads);
  if (stage.ffn > 0) enough("ffn", stage.ffn);
}

void check_stages(const Job& job) {
  const std::vector<HnetStage> stages = hnet_stages(job.hnet);
  if (job.parallel.tp == 1) return;
  for (std::size_t s = 0; s < stages.size(); ++s) check_shares(stages[s], s, job.parallel.tp);
}

std::vector<Rule> hnet_rules() { return joined({vocab_rules(), {{"stages", check_stages}}}); }

}  // namespace

FamilyInfo hnet_family() {
  return {.about = "text as bytes in learned chunks",
          .keys = "model.vocab,model.seq_len,model.norm_eps,model.rope_theta,model.init_std,hnet.*",
          .rules = hnet_rules,
          .reads_tokens = true,
          .has_vocabulary = true,
          .fp16_on_cpu = true};
}

}  // namespace trireme::config
