// V-JEPA 2 over chunks of tokens, with VICRegL.
#include "trireme/config/families.h"
#include "trireme/config/family_keys.h"
#include "trireme/config/fields/field_joined.h"
#include "trireme/config/fields/field_kinds.h"
#include "trireme/config/rules/shared_rules.h"
#include "trireme/config/rules/templates.h"
#include "trireme/families/hvjepa/keys_checks.h"
#include "trireme/families/jepa/keys_checks.h"

namespace trireme::config {

std::vector<Field> hvjepa_fields() {
  return {
      of_weights(choice(
          KEY(chunk.mode),
          "Tokens that begin a chunk. threshold: router probability above one half. topk: the most "
          "probable, as many as chunk.ratio gives. fixed: every chunk.ratio-th token of a row.",
          {{"threshold", ChunkMode::kThreshold},
           {"topk", ChunkMode::kTopK},
           {"fixed", ChunkMode::kFixed}})),
      of_weights(
          integer(KEY(chunk.ratio), "Target tokens per chunk of the router.", from(2, 1 << 20))),
      of_weights(
          integer(KEY(chunk.hidden), "Width of tokens before chunking.", from(1, kMaxWidth))),
      of_weights(
          integer(KEY(chunk.heads),
                  "Attention heads of the blocks before the router. Must divide chunk.hidden.",
                  from(1, 1 << 16))),
      of_weights(integer(KEY(chunk.layers),
                         "Blocks before the router, with attention to similar neighbouring tokens.",
                         from(0, 1 << 10))),

      fixed(number(KEY(vicreg.weight),
                   "Weight of VICRegL's loss / 25 between the two masked views of a clip, with "
                   "statistics over the global batch. 0: off.",
                   from(0, 1e3))),
      choice(KEY(vicreg.statistics),
             "Rows of the variance and covariance of matches. match: the clips of the global "
             "batch, for each match. pooled: all matches of all clips.",
             {{"match", LocalStatistics::kMatch}, {"pooled", LocalStatistics::kPooled}}),
      of_weights(pair_of("vicreg.widths", MEMBER(vicreg.width), MEMBER(vicreg.local_width),
                         "Width of the three-layer expanders of whole clips and of chunks.",
                         from(1, kMaxWidth))),
      fixed(integer(KEY(vicreg.feature_matches),
                    "Maximum matches of a clip by feature. 0: all chunks of the smallest view of "
                    "the global batch.",
                    from(0, 1 << 20))),
  };
}

namespace {

std::vector<Rule> hvjepa_rules() {
  return joined(
      {jepa_rules(),
       chunk_rules(),
       {{"vicreg-batch",
         at_least("run.global_batch", 2, "{vicreg.weight} needs the variance over a batch",
                  "set vicreg.weight=0"),
         [](const Job& job) { return job.vicreg.weight > 0; }}}});
}

}  // namespace

FamilyInfo hvjepa_family() {
  return {.about = "V-JEPA 2 with chunks",
          .keys = kClipTowerKeys,
          .also = "jepa.*,chunk.*,vicreg.*",
          .rules = hvjepa_rules,
          .embeds = true,
          .couples_batch = [](const Job& job) { return job.vicreg.weight > 0; },
          .couples = "The statistics of vicreg.weight > 0 cover"};
}

}  // namespace trireme::config
