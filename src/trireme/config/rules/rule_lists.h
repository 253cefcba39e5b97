// The rules of each topic, in the order in which they run.
#pragma once

#include <vector>

#include "trireme/config/rules/rule.h"

namespace trireme::config {

// Of keys that a family has, then those of families themselves.
std::vector<Rule> key_rules();
std::vector<Rule> family_rules();
std::vector<Rule> model_rules();
std::vector<Rule> layout_rules();
std::vector<Rule> precision_rules();
std::vector<Rule> optim_rules();
std::vector<Rule> training_rules();
std::vector<Rule> batch_rules();
std::vector<Rule> network_rules();
std::vector<Rule> codec_rules();
std::vector<Rule> island_rules();
std::vector<Rule> run_rules();

}  // namespace trireme::config
