// Chunks of clips, and what keeps their embeddings from collapsing.
#include "trireme/config/fields/field_kinds.h"
#include "trireme/config/fields/field_lists.h"

namespace trireme::config {

std::vector<Field> chunk_fields() {
  return {
      of_weights(
          choice(KEY(chunk.mode),
                 "Which tokens of a clip begin a chunk: those of which the router is more than "
                 "half sure (threshold), as many of the surest as chunk.ratio gives (topk), or "
                 "every chunk.ratio-th of a row of tokens (fixed).",
                 {{"threshold", ChunkMode::kThreshold},
                  {"topk", ChunkMode::kTopK},
                  {"fixed", ChunkMode::kFixed}})),
      of_weights(integer(KEY(chunk.ratio), "Tokens to a chunk that the router aims at.",
                         from(2, 1 << 20))),
      fixed(number(KEY(chunk.ratio_weight),
                   "Of the ratio loss; mode fixed has no router, and no use for it.",
                   from(0, 1e3))),
      of_weights(integer(KEY(chunk.hidden), "Width of tokens before they are chunks.",
                         from(1, kMaxWidth))),
      of_weights(
          integer(KEY(chunk.heads),
                  "Attention heads of the blocks before the router; must divide chunk.hidden.",
                  from(1, 1 << 16))),
      of_weights(integer(KEY(chunk.layers),
                         "Blocks before the router, in which tokens attend to neighbours.",
                         from(0, 1 << 10))),
      of_weights(
          integer(KEY(chunk.neighbours),
                  "Tokens that each attends to beside itself: the most similar of the 26 around "
                  "it in time, row and column.",
                  from(1, 26))),
  };
}

std::vector<Field> vicreg_fields() {
  return {
      fixed(number(KEY(vicreg.weight),
                   "Of VICRegL's loss / 25 between the two masked views of a clip; 0: none. Its "
                   "statistics are of the global batch.",
                   from(0, 1e3))),
      fixed(number(KEY(vicreg.invariance), "Of the distance of both views.", from(0, 1e6))),
      fixed(number(KEY(vicreg.variance), "Of the lack of variance.", from(0, 1e6))),
      fixed(number(KEY(vicreg.covariance), "Of the covariances.", from(0, 1e6))),
      fixed(number(KEY(vicreg.alpha),
                   "Share of the loss of whole clips; the rest is of chunks that match by place "
                   "and by feature.",
                   from(0, 1))),
      choice(KEY(vicreg.statistics),
             "Rows of the variance and covariance of matches: the clips of the global batch, for "
             "each match of a clip by itself (match), or all matches of all clips together "
             "(pooled).",
             {{"match", LocalStatistics::kMatch}, {"pooled", LocalStatistics::kPooled}}),
      of_weights(integer(KEY(vicreg.width), "Width of the three layers of the expander of clips.",
                         from(1, kMaxWidth))),
      of_weights(integer(KEY(vicreg.local_width),
                         "Width of the three layers of the expander of chunks; 0: vicreg.width.",
                         from(0, kMaxWidth))),
      fixed(integer(KEY(vicreg.matches),
                    "Maximum matches of a clip by place; at most as many as the view of the global "
                    "batch with the fewest chunks has.",
                    from(1, 1 << 20))),
      fixed(integer(KEY(vicreg.feature_matches),
                    "Maximum matches of a clip by feature, limited likewise; 0: as many as the "
                    "view of the global batch with the fewest chunks has.",
                    from(0, 1 << 20))),
  };
}

}  // namespace trireme::config
