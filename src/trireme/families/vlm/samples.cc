#include "trireme/data/loaders/families.h"
#include "trireme/families/vlm/samples_clips.h"
#include "trireme/families/vlm/samples_source.h"

namespace trireme::loaders {

FamilySamples vlm_samples() {
  return {.pairs = question_reader,
          .scenes = open_questions,
          .squares = open_clip_questions,
          .asked = asked_prompt};
}

}  // namespace trireme::loaders
