// Rules that several families append to their own.
#pragma once

#include <initializer_list>
#include <string_view>
#include <vector>

#include "trireme/config/rules/rule.h"

namespace trireme::config {

std::vector<Rule> joined(std::initializer_list<std::vector<Rule>> lists);
// Checks of a list for these jobs alone; its fills are for all.
std::vector<Rule> only_for(bool (*jobs)(const Job&), std::vector<Rule> list);

// Rows of an embedding of the data's tokens.
std::vector<Rule> vocab_rules();
// Section `model` of a decoder.
std::vector<Rule> decoder_rules();
// Throws Error{kUsage} where `fraction`, the value of `key`, rotates an odd number of a head's channels.
void check_rotated(const Model& model, std::string_view key, double fraction);
// A decoder alone, on text.
std::vector<Rule> language_rules();

// One of "data.source=stripes|images" with "it reads labelled images".
Rule reads(std::string_view sources, std::string_view what);
// Keys of `data` and `recompute` that are of text and its models.
std::vector<Rule> sample_rules();
// Sizes of the tower that pictures or clips go through, and their samples.
std::vector<Rule> tower_rules();
// Positions of an encoder of V-JEPA 2.
Rule rotary_tower();
// Outputs of a classifier.
std::vector<Rule> class_rules();

}  // namespace trireme::config
