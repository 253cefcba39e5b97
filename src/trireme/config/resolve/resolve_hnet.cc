#include <vector>

#include "trireme/base/error.h"
#include "trireme/config/hnet_stages.h"
#include "trireme/config/resolve/resolve_family.h"

namespace trireme::config {
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

}  // namespace

void resolve_hnet(Job& job, const DatasetFacts& data) {
  resolve_vocab(job.model, data);
  const std::vector<HnetStage> stages = hnet_stages(job.hnet);
  if (job.parallel.tp == 1) return;
  for (std::size_t s = 0; s < stages.size(); ++s) check_shares(stages[s], s, job.parallel.tp);
  if (job.parallel.tp > job.model.vocab)
    fail(ErrorKind::kUsage, "parallel.tp={} is more than model.vocab={}; lower tp", job.parallel.tp,
         job.model.vocab);
}

}  // namespace trireme::config
