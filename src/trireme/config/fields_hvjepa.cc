// Chunks of clips, and what keeps their embeddings from collapsing.
#include "trireme/config/field_kinds.h"
#include "trireme/config/field_lists.h"

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
      of_weights(
          integer(KEY(vicreg.width), "Width of the expanders' three layers.", from(1, kMaxWidth))),
      fixed(integer(KEY(vicreg.matches),
                    "Matches of a clip that are kept, at most; as many as the clip of the global "
                    "batch with the fewest chunks has.",
                    from(1, 1 << 20))),
  };
}

}  // namespace trireme::config
