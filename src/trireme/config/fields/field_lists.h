// The fields of each section, in the order in which they are printed.
#pragma once

#include <vector>

#include "trireme/config/fields/fields.h"

namespace trireme::config {

std::vector<Field> model_fields();
std::vector<Field> vision_fields();
// Own keys of all families.
std::vector<Field> family_fields();
std::vector<Field> data_fields();
std::vector<Field> preference_fields();
std::vector<Field> parallel_fields();
std::vector<Field> precision_fields();
std::vector<Field> network_fields();
std::vector<Field> recompute_fields();
std::vector<Field> offload_fields();
std::vector<Field> optim_fields();
std::vector<Field> lora_fields();
std::vector<Field> run_fields();
std::vector<Field> checkpoint_fields();

}  // namespace trireme::config
