// Regions of an image and their tokens.
#include "trireme/config/fields/field_kinds.h"
#include "trireme/config/fields/field_lists.h"

namespace trireme::config {

std::vector<Field> arrcoc_fields() {
  return {
      of_weights(integer(KEY(arrcoc.grid), "Regions of a side of an image.", from(2, 64))),
      of_weights(
          integer(KEY(arrcoc.least),
                  "Tokens of a side of a region at its least, at which every region is seen.",
                  from(1, 1 << 10))),
      of_weights(integer(KEY(arrcoc.most), "The same at its most.", from(2, 1 << 10))),
      inherited(
          fixed(integer(KEY(arrcoc.budget),
                        "Most tokens of an image's regions together; 0: 2.25 times the least.",
                        from(0, kMaxIds)))),
      of_weights(number(KEY(arrcoc.temperature),
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
      of_weights(choice(
          KEY(arrcoc.allocation),
          "Who shares out the budget: learned scorers; nobody, all regions alike; or chance, "
          "by sample. The latter two have no scorers, and no use for gate, explore, "
          "channels, scorers and hidden.",
          {{"learned", Allocation::kLearned},
           {"uniform", Allocation::kUniform},
           {"random", Allocation::kRandom}})),
      of_weights(
          text(KEY(arrcoc.channels),
               "Channels of the texture that scorers see, the others being 0: all, or some of rgb, "
               "lab, sobel, magnitude, orientation, position and eccentricity between commas.")),
      of_weights(
          text(KEY(arrcoc.scorers), "Some of information, salience and coupling between commas.")),
      of_weights(integer(KEY(arrcoc.hidden), "Width of scorers.", from(2, kMaxWidth))),
      of_weights(
          integer(KEY(arrcoc.coupling),
                  "Width of the space that a region and a question are compared in; 0: half of "
                  "hidden.",
                  from(0, kMaxWidth))),
      of_weights(
          integer(KEY(arrcoc.balancer), "Width of the balancer; 0: hidden.", from(0, kMaxWidth))),
      of_weights(two_numbers(
          KEY(arrcoc.fovea),
          "Where the texture's eccentricity is 0: x and y, from 0 to 1 of the image.", from(0, 1))),
      of_weights(
          choice(KEY(arrcoc.decoder),
                 "Whose blocks read the tokens: Llama's, or GPT-2's, whose queries and keys turn "
                 "as Llama's do.",
                 {{"llama", RegionDecoder::kLlama}, {"gpt", RegionDecoder::kGpt}})),
      of_weights(
          boolean(KEY(arrcoc.learn_budget),
                  "A tension of each image says how much of the budget above the least it uses.")),
      fixed(number(KEY(arrcoc.budget_weight),
                   "What using all of the budget adds to the loss of an answer's token, with "
                   "learn_budget.",
                   from(0, 1000))),
      fixed(number(KEY(arrcoc.entropy_weight),
                   "What an even allocation takes from the loss of an answer's token at the first "
                   "step, and less and less until none in the middle of the run.",
                   from(0, 1000))),
  };
}

}  // namespace trireme::config
