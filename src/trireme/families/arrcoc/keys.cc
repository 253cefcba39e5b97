// Regions of images with as many tokens as they are worth (ARR-COC).
#include <fmt/format.h>

#include "trireme/config/families.h"
#include "trireme/config/family_keys.h"
#include "trireme/config/fields/field_joined.h"
#include "trireme/families/arrcoc/keys_checks.h"
#include "trireme/families/llama/keys_decoder.h"

namespace trireme::config {

namespace {

constexpr std::string_view kUniform = "uniform", kRandom = "random", kBudget = ",budget";

// Allocation of the budget: scorers, whether they choose how much of it is used, or none.
Field scorers_field() {
  Field field = text(KEY(arrcoc.scorers),
                     "Scorers that allocate the budget, comma-separated: information, salience and "
                     "coupling. With budget at the end they also choose how much of it an image "
                     "uses. uniform (equal regions) and random (per sample) have no scorers and "
                     "ignore gate, explore, channels and hidden.");
  field.get = [](const Job& job) -> Value {
    const Arrcoc& arrcoc = job.arrcoc;
    if (arrcoc.allocation == Allocation::kUniform) return std::string(kUniform);
    if (arrcoc.allocation == Allocation::kRandom) return std::string(kRandom);
    return arrcoc.learn_budget ? fmt::format("{}{}", arrcoc.scorers, kBudget) : arrcoc.scorers;
  };
  field.set = [](Job& job, const Value& value) {
    const std::string_view text = std::get<std::string>(value);
    Arrcoc& arrcoc = job.arrcoc;
    arrcoc.allocation = text == kUniform  ? Allocation::kUniform
                        : text == kRandom ? Allocation::kRandom
                                          : Allocation::kLearned;
    arrcoc.learn_budget = text.ends_with(kBudget);
    arrcoc.scorers = arrcoc.allocation != Allocation::kLearned
                         ? Arrcoc{}.scorers
                         : text.substr(0, text.size() - (arrcoc.learn_budget ? kBudget.size() : 0));
  };
  return field;
}

}  // namespace

std::vector<Field> arrcoc_fields() {
  return {
      of_weights(integer(KEY(arrcoc.grid), "Regions per side of an image.", from(2, 64))),
      of_weights(pair_of("arrcoc.sides", MEMBER(arrcoc.least), MEMBER(arrcoc.most),
                         "Minimum and maximum tokens per side of a region.", from(1, 1 << 10))),
      inherited(
          fixed(integer(KEY(arrcoc.budget),
                        "Maximum tokens of all regions of an image. 0: 2.25 times the minimum.",
                        from(0, kMaxIds)))),
      fixed(boolean(KEY(arrcoc.gate),
                    "Gradients of the scorers from the effect of added detail on the loss. false: "
                    "scorers keep their initial weights.")),
      fixed(
          boolean(KEY(arrcoc.explore),
                  "Noise on the scores during training, a function of data.seed and the sample.")),
      of_weights(text(
          KEY(arrcoc.channels),
          "Texture channels that the scorers read: all, or a comma-separated list of rgb, lab, "
          "sobel, magnitude, orientation, position and eccentricity. Other channels are 0.")),
      of_weights(scorers_field()),
      of_weights(integer(KEY(arrcoc.hidden), "Width of the scorers.", from(2, kMaxWidth))),
      of_weights(pair_of("arrcoc.widths", MEMBER(arrcoc.coupling), MEMBER(arrcoc.balancer),
                         "Width of the space that compares regions with questions (0: half of "
                         "arrcoc.hidden), and of the balancer (0: arrcoc.hidden).",
                         from(0, kMaxWidth))),
      of_weights(choice(KEY(arrcoc.decoder),
                        "Decoder blocks: llama, or gpt (GPT-2 with rotary queries and keys).",
                        {{"llama", RegionDecoder::kLlama}, {"gpt", RegionDecoder::kGpt}})),
      fixed(pair_of(
          "arrcoc.penalties", MEMBER(arrcoc.budget_weight), MEMBER(arrcoc.entropy_weight),
          "Loss per answer token for using the whole budget (needs budget in "
          "arrcoc.scorers), and weight of the allocation's entropy. The entropy is subtracted from "
          "that loss; its weight decays to 0 by half of the run.",
          from(0, 1000))),
  };
}

FamilyInfo arrcoc_family() {
  return {.about = "images with a token budget per region",
          .keys =
              "vision.image,vision.patch,vision.layers,vision.hidden,vision.heads,vision.ffn,"
              "vision.activation,vision.norm_eps,arrcoc.*,projector.kind,vlm.mrope",
          .also = kTextDecoderKeys,
          .rules = arrcoc_rules,
          .decoder = kLlamaDecoder,
          .adapters = true,
          .pictures = Pictures::kRegions};
}

}  // namespace trireme::config
