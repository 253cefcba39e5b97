#include "trireme/data/loaders/families.h"

namespace trireme::loaders {

FamilySamples jepa_ac_samples() { return {.held_out_view = camera_view}; }

}  // namespace trireme::loaders
