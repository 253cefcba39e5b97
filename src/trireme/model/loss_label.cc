#include "trireme/model/loss_label.h"

#include <fmt/format.h>

#include "trireme/base/error.h"
#include "trireme/config/probes.h"

namespace trireme::model {
namespace {

constexpr char kPerSample[] = "nats/sample";

// V-JEPA's regression of features, with what a hierarchical one adds.
LossLabel features_label(const config::Job& job) {
  LossLabel label{.name = "L1 distance of features", .unit = "L1"};
  if (job.model.family != config::Family::kHvjepa) return label;
  if (job.chunk.mode != config::ChunkMode::kFixed) label = {.name = label.name + " + ratio loss"};
  if (job.vicreg.weight > 0) label = {.name = label.name + " + VICReg"};
  return label;
}

LossLabel probe_label(const config::Job& job) {
  const std::size_t probes = config::probe_metrics(job).size();
  if (probes == 1) return {.name = "cross-entropy", .unit = kPerSample};
  return {.name = fmt::format("cross-entropy, sum of {} probes", probes), .unit = kPerSample};
}

}  // namespace

LossLabel loss_label(const config::Job& job) {
  switch (job.model.family) {
    case config::Family::kGpt:
    case config::Family::kLlama: return {.name = "cross-entropy", .unit = kNatsPerToken};
    case config::Family::kVlm: return {.name = "cross-entropy of answers", .unit = kNatsPerToken};
    case config::Family::kArrcoc:
      return {.name = job.arrcoc.entropy_weight > 0
                          ? "cross-entropy of answers, less the entropy of the allocation"
                          : "cross-entropy of answers",
              .unit = kNatsPerToken};
    case config::Family::kHnet:
      return {.name = "cross-entropy + ratio loss", .unit = kNatsPerToken};
    case config::Family::kVit: return {.name = "cross-entropy", .unit = kPerSample};
    case config::Family::kProbe: return probe_label(job);
    case config::Family::kClip:
      return {.name = job.contrastive.loss == config::ContrastiveLoss::kSiglip
                          ? "sigmoid loss of pairs"
                          : "contrastive cross-entropy",
              .unit = kPerSample};
    case config::Family::kJepa:
    case config::Family::kHvjepa:
    case config::Family::kJepaAc: return features_label(job);
    default: break;
  }
  TRIREME_CHECK(false, "model.family {} has a loss without a name",
                static_cast<int>(job.model.family));
}

}  // namespace trireme::model
