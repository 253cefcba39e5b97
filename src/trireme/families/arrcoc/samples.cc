#include "trireme/data/loaders/families.h"
#include "trireme/families/arrcoc/samples_questions.h"

namespace trireme::loaders {

FamilySamples arrcoc_samples() { return {.pairs = region_question_reader}; }

}  // namespace trireme::loaders
