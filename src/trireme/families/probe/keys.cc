// Attentive probes on a frozen encoder of V-JEPA 2.
#include "trireme/config/families.h"
#include "trireme/config/family_keys.h"
#include "trireme/config/fields/field_joined.h"
#include "trireme/config/fields/field_kinds.h"
#include "trireme/config/rules/shared_rules.h"
#include "trireme/config/rules/templates.h"
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

std::vector<Rule> probe_rules() {
  const Number views("{}, the second of {probe.clips}",
                     [](const Job& job) { return static_cast<double>(job.probe.views); });
  return joined(
      {{reads("data.source=squares|clips", "it reads clips")},
       tower_rules(),
       frozen_tower_rules(),
       {{"protocol",
         refused("probe.augment,probe.clips",
                 "it is for clips in files, and {data.source} makes its own",
                 "set data.source=clips, or leave it out"),
         [](const Job& job) { return job.data.source != DataSource::kClips; }},
        {"segments",
         refused("probe.clips with vision.chunked", "a tower of chunks reads one clip of a sample",
                 "set the first of probe.clips to 1"),
         [](const Job& job) { return job.probe.segments > 1; }},
        {"views", multiple_of("run.micro_batch", views, "as it has all views of held-out samples")},
        {"probe-heads", multiple_of("vision.hidden", "probe.heads")},
        {"turned-probe", turned_heads("vision.hidden", "probe.heads", kTurnsClips),
         [](const Job& job) { return job.vision.chunked; }}},
       class_rules(),
       {{"probe-decay",
         refused("probe.weight_decay", "{optim.weight_decay} has no multiples",
                 "set optim.weight_decay"),
         [](const Job& job) { return job.optim.weight_decay == 0; }},
        {"probe-names", check_probe_names},
        {"probe-clip",
         needs("probe.lr,probe.weight_decay", {"optim.clip=0"},
               "probes would be clipped by the gradient of all", "one probe"),
         [](const Job& job) { return probe_factors(job).size() > 1; }},
        {"tp-probe-heads", shared_by_tp("probe.heads")}}});
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
