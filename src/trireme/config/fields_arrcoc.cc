// Regions of an image and their tokens.
#include "trireme/config/field_kinds.h"
#include "trireme/config/field_lists.h"

namespace trireme::config {

std::vector<Field> arrcoc_fields() {
  return {
      fixed(integer(KEY(arrcoc.grid), "Regions of a side of an image.", from(2, 64))),
      fixed(integer(KEY(arrcoc.least),
                    "Tokens of a side of a region at its least, at which every region is seen.",
                    from(1, 1 << 10))),
      fixed(integer(KEY(arrcoc.most), "The same at its most.", from(2, 1 << 10))),
      fixed(integer(KEY(arrcoc.budget),
                    "Most tokens of an image's regions together; 0: 2.25 times the least.",
                    from(0, kMaxIds))),
      fixed(number(KEY(arrcoc.temperature),
                   "What tensions of regions are divided by before they share out the budget.",
                   above(0, 100))),
      fixed(
          boolean(KEY(arrcoc.gate),
                  "Scorers train, by what the loss says of adding detail to a region; false: they "
                  "stay as they begin.")),
      fixed(
          boolean(KEY(arrcoc.explore),
                  "While training, noise on the tensions that levels are chosen by, a function of "
                  "data.seed and the sample.")),
      fixed(choice(
          KEY(arrcoc.allocation),
          "Who shares out the budget: learned scorers; nobody, all regions alike; or chance, "
          "by sample. The latter two have no scorers, and no use for gate, explore, "
          "channels, scorers and hidden.",
          {{"learned", Allocation::kLearned},
           {"uniform", Allocation::kUniform},
           {"random", Allocation::kRandom}})),
      fixed(
          text(KEY(arrcoc.channels),
               "Channels of the texture that scorers see, the others being 0: all, or some of rgb, "
               "lab, sobel, magnitude, orientation, position and eccentricity between commas.")),
      fixed(
          text(KEY(arrcoc.scorers), "Some of information, salience and coupling between commas.")),
      fixed(integer(KEY(arrcoc.hidden), "Width of scorers and balancer.", from(2, kMaxWidth))),
  };
}

}  // namespace trireme::config
