#include "trireme/data/loaders/families.h"

namespace trireme::loaders {

FamilySamples jepa_samples() { return {.masks = true, .asked = asked_masked}; }

}  // namespace trireme::loaders
