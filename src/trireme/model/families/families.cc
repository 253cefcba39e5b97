#include "trireme/model/families/families.h"

#include <fmt/format.h>

#include <array>

#include "trireme/base/error.h"
#include "trireme/config/probes.h"
#include "trireme/model/families/action.h"
#include "trireme/model/families/arrcoc.h"
#include "trireme/model/families/clip.h"
#include "trireme/model/families/decoders/language_model.h"
#include "trireme/model/families/hnet/hnet.h"
#include "trireme/model/families/jepa.h"
#include "trireme/model/families/neox/neox.h"
#include "trireme/model/families/probe.h"
#include "trireme/model/families/vit.h"
#include "trireme/model/families/vlm.h"

namespace trireme::model {
namespace {

using config::Family;
using config::Job;

constexpr char kPerSample[] = "nats/sample";

LossLabel of_tokens(const Job&) { return {.name = "cross-entropy", .unit = kNatsPerToken}; }

LossLabel of_answers(const Job&) {
  return {.name = "cross-entropy of answers", .unit = kNatsPerToken};
}

LossLabel of_allocated_answers(const Job& job) {
  LossLabel label = of_answers(job);
  if (job.arrcoc.entropy_weight > 0) label.name += ", less the entropy of the allocation";
  return label;
}

LossLabel of_chunked_text(const Job&) {
  return {.name = "cross-entropy + ratio loss", .unit = kNatsPerToken};
}

LossLabel of_classes(const Job&) { return {.name = "cross-entropy", .unit = kPerSample}; }

LossLabel of_probes(const Job& job) {
  const std::size_t probes = config::probe_metrics(job).size();
  if (probes == 1) return of_classes(job);
  return {.name = fmt::format("cross-entropy, sum of {} probes", probes), .unit = kPerSample};
}

LossLabel of_pairs(const Job& job) {
  return {.name = job.contrastive.loss == config::ContrastiveLoss::kSiglip
                      ? "sigmoid loss of pairs"
                      : "contrastive cross-entropy",
          .unit = kPerSample};
}

LossLabel of_features(const Job&) { return {.name = "L1 distance of features", .unit = "L1"}; }

// Terms of different kinds have no unit.
LossLabel of_chunked_features(const Job& job) {
  LossLabel label = of_features(job);
  if (job.chunk.mode != config::ChunkMode::kFixed) label = {.name = label.name + " + ratio loss"};
  if (job.vicreg.weight > 0) label = {.name = label.name + " + VICReg"};
  return label;
}

constexpr std::array kModels = {
    FamilyModel{Family::kGpt,
                [](const Job& job, const PerRank& rank, const Training& training) {
                  return gpt_spec(job.model, rank, training);
                },
                of_tokens},
    FamilyModel{Family::kLlama, llama_spec, of_tokens},
    FamilyModel{Family::kNeox, neox_spec, of_tokens},
    FamilyModel{Family::kVit, vit_spec, of_classes},
    FamilyModel{Family::kClip, clip_spec, of_pairs},
    FamilyModel{Family::kHnet, hnet_spec, of_chunked_text},
    FamilyModel{Family::kVlm, vlm_spec, of_answers},
    FamilyModel{Family::kArrcoc, arrcoc_spec, of_allocated_answers},
    FamilyModel{Family::kJepa, jepa_spec, of_features},
    FamilyModel{Family::kHvjepa, jepa_spec, of_chunked_features},
    FamilyModel{Family::kProbe, probe_spec, of_probes},
    FamilyModel{Family::kJepaAc, action_spec, of_features},
};

}  // namespace

const FamilyModel& family_model(Family family) {
  const FamilyModel* found = config::find_entry<FamilyModel>(kModels, family);
  TRIREME_CHECK(found != nullptr, "family {} has no model", config::name(family));
  return *found;
}

LossLabel loss_label(const Job& job) {
  if (job.data.source == config::DataSource::kPreferences)
    return {.name = fmt::format("{} loss", config::name(job.preference.loss))};
  return family_model(job.model.family).loss(job);
}

}  // namespace trireme::model
