#include "trireme/data/loaders/families.h"

#include <array>

#include "trireme/config/families.h"
#include "trireme/data/loaders/samples/clip_questions.h"
#include "trireme/data/loaders/samples/question_source.h"

namespace trireme::loaders {
namespace {

using config::Family;

constexpr FamilySamples kOfSource{};
constexpr std::array kSamples = {
    FamilySamples{.family = Family::kVlm,
                  .pairs = question_reader,
                  .scenes = open_questions,
                  .squares = open_clip_questions,
                  .asked = asked_prompt},
    FamilySamples{.family = Family::kArrcoc, .pairs = region_question_reader},
    FamilySamples{.family = Family::kJepa, .masks = true, .asked = asked_masked},
    FamilySamples{.family = Family::kHvjepa, .masks = true, .asked = asked_masked},
    FamilySamples{.family = Family::kProbe, .clips = probe_reader},
    FamilySamples{.family = Family::kJepaAc, .held_out_view = camera_view},
};

}  // namespace

const FamilySamples& family_samples(const config::Job& job) {
  const FamilySamples* found = config::find_entry<FamilySamples>(kSamples, job.model.family);
  return found != nullptr ? *found : kOfSource;
}

}  // namespace trireme::loaders
