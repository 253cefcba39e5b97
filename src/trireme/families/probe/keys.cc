// Attentive probes on a frozen encoder of V-JEPA 2.
#include "trireme/base/error.h"
#include "trireme/config/families.h"
#include "trireme/config/family_keys.h"
#include "trireme/config/fields/field_joined.h"
#include "trireme/config/fields/field_kinds.h"
#include "trireme/config/resolve/resolve_family.h"
#include "trireme/config/resolve/resolve_towers.h"
#include "trireme/config/rules/rule.h"
#include "trireme/families/hvjepa/keys_checks.h"
#include "trireme/families/probe/keys_probes.h"

namespace trireme::config {

std::vector<Field> probe_fields() {
  return {
      of_weights(integer(KEY(probe.layers),
                         "Blocks of an attentive probe; the last attends with a learned query.",
                         from(1, 1 << 10))),
      of_weights(integer(KEY(probe.heads),
                         "Attention heads of the probe. Must divide vision.hidden.",
                         from(1, 1 << 16))),
      fixed(text(KEY(probe.lr),
                 "Factors of optim.lr, comma-separated, one per probe; probes train together on "
                 "the same features. Empty: one probe.")),
      fixed(text(KEY(probe.weight_decay),
                 "Factors of optim.weight_decay, comma-separated, each combined with every factor "
                 "of probe.lr. Empty: optim.weight_decay.")),
      fixed(integer(KEY(probe.augment),
                    "Random operations per training clip: RandAugment of magnitude 7 without "
                    "mirroring, then random erasing in a quarter of the clips (V-JEPA 2: 4). 0: "
                    "neither.",
                    from(0, 16))),
      fixed(pair_of("probe.clips", MEMBER(probe.segments), MEMBER(probe.views),
                    "Clips per sample, from equal segments of its video, and crops per validation "
                    "sample along its longer side, whose probabilities are averaged (V-JEPA 2: "
                    "[2, 3]). The second must divide run.micro_batch.",
                    from(1, 64))),
  };
}

namespace {

// How a probe is trained and evaluated on a user's clips.
void check_protocol(const Job& job) {
  const Probe& probe = job.probe;
  const bool plain = probe.augment == 0 && probe.segments == 1 && probe.views == 1;
  if (job.data.source != DataSource::kClips && !plain)
    fail(ErrorKind::kUsage,
         "probe.augment={}, probe.clips=[{}, {}]: these keys are for clips in files, "
         "and data.source makes its clips itself. Set data.source=clips, or leave the keys out.",
         probe.augment, probe.segments, probe.views);
  if (probe.segments > 1 && job.vision.chunked)
    fail(
        ErrorKind::kUsage,
        "probe.clips=[{}, {}]: a tower of chunks (vision.chunked=true) reads one clip of a sample. "
        "Set probe.clips=[1, {}].",
        probe.segments, probe.views, probe.views);
  if (job.run.micro_batch % probe.views != 0)
    fail(ErrorKind::kUsage,
         "{} in probe.clips does not divide run.micro_batch={}: all views of a held-out sample are "
         "in "
         "one micro-batch. Set {}.",
         probe.views, job.run.micro_batch,
         nearest_multiples("run.micro_batch", job.run.micro_batch, probe.views));
}

void resolve_probe(Job& job, const DatasetFacts& data) {
  resolve_frozen_tower(job);
  check_reads(job, DataSource::kSquares, DataSource::kClips, "clips");
  check_protocol(job);
  if (job.vision.hidden % job.probe.heads != 0)
    fail(ErrorKind::kUsage, "vision.hidden={} is not divisible by probe.heads={}; change one",
         job.vision.hidden, job.probe.heads);
  if (const auto width = job.vision.hidden / job.probe.heads;
      job.vision.chunked && (width % 2 != 0 || width < 6))
    fail(ErrorKind::kUsage,
         "vision.hidden={} / probe.heads={} = {} per head; on chunks a probe has rotary positions, "
         "which need an even number of 6 or more",
         job.vision.hidden, job.probe.heads, width);
  resolve_classes(job.vision, data);
  check_probes(job);
  if (job.parallel.tp > job.probe.heads)
    fail(ErrorKind::kUsage, "parallel.tp={} is more than probe.heads={}; a rank needs at least one",
         job.parallel.tp, job.probe.heads);
}

std::vector<Rule> probe_rules() {
  return {{.id = "probe",
           .fill = [](Job& job, const Given& given) { resolve_probe(job, given.data); }}};
}

}  // namespace

FamilyInfo probe_family() {
  return {.about = "a classifier on a frozen encoder of video",
          .keys = kClipTowerKeys,
          .also = "vision.classes,probe.*",
          .chunks = kChunkedTowerKeys,
          .rules = probe_rules,
          .embeds = true};
}

}  // namespace trireme::config
