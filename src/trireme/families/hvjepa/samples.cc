#include "trireme/data/loaders/families.h"

namespace trireme::loaders {

FamilySamples hvjepa_samples() { return {.masks = true, .asked = asked_masked}; }

}  // namespace trireme::loaders
