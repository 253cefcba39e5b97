#include "trireme/data/loaders/families.h"

namespace trireme::loaders {

FamilySamples probe_samples() { return {.clips = probe_reader}; }

}  // namespace trireme::loaders
