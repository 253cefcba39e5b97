// Small data sets of compared and of rewarded answers in bytes.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/harness/scratch_directory.h"
#include "trireme/base/json.h"
#include "trireme/data/chat/prepare.h"

namespace trireme::harness {

inline text::Dataset prepared_preferences(const ScratchDirectory& directory,
                                          const std::string& name, const std::vector<Json>& lines,
                                          double validation = 0) {
  std::string text;
  for (const Json& line : lines) text += line.dump() + "\n";
  return chat::prepare({.sources = text::collect_sources({directory.write(name + ".jsonl", text)}),
                        .out = directory / name,
                        .tokenizer = text::Tokenizer::bytes(),
                        .shape = chat::find_template("phi4_mini"),
                        .validation = validation,
                        .preferences = true});
}

// Pairs of unlike lengths: the chosen answer repeats the question's letter.
inline std::vector<Json> pairs(int count) {
  std::vector<Json> lines;
  for (int i = 0; i < count; ++i) {
    const std::string letter(1, static_cast<char>('a' + i % 26));
    std::string chosen, rejected;
    for (int k = 0; k < 2 + i % 5; ++k) chosen += letter;
    for (int k = 0; k < 1 + i % 7; ++k) rejected += "z";
    lines.push_back(
        {{"prompt", letter + std::to_string(i)}, {"chosen", chosen}, {"rejected", rejected + "!"}});
  }
  return lines;
}

inline std::vector<Json> labels(int count) {
  std::vector<Json> lines;
  for (int i = 0; i < count; ++i)
    lines.push_back({{"prompt", "q" + std::to_string(i)},
                     {"completion", std::string(static_cast<std::size_t>(1 + i % 6),
                                                static_cast<char>('a' + i % 26))},
                     {"label", i % 3 != 0}});
  return lines;
}

// Groups of answers with rewards, of unlike numbers and lengths; letters of the prompt are rewarded.
inline std::vector<Json> rollouts(int count) {
  std::vector<Json> lines;
  for (int i = 0; i < count; ++i) {
    Json answers = Json::array(), rewards = Json::array();
    for (int k = 0; k < 2 + i % 3; ++k) {
      const char letter = static_cast<char>(k % 2 == 0 ? 'a' + i % 26 : 'z');
      answers.push_back(std::string(static_cast<std::size_t>(1 + (i + 2 * k) % 7), letter));
      rewards.push_back(k % 2 == 0 ? 1.0 : -0.25 * k);
    }
    lines.push_back(
        {{"prompt", std::string(1, static_cast<char>('a' + i % 26)) + std::to_string(i)},
         {"completions", answers},
         {"rewards", rewards}});
  }
  return lines;
}

}  // namespace trireme::harness
