// Small data sets of conversations in bytes.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/harness/scratch_directory.h"
#include "trireme/base/json.h"
#include "trireme/data/chat/prepare.h"

namespace trireme::harness {

using Chats = std::vector<std::pair<std::string, std::string>>;  // questions and answers

// Prepares them as template phi4_mini, whose words are short, into `name` of the directory.
inline text::Dataset prepared_chats(const ScratchDirectory& directory, const std::string& name,
                                    const Chats& chats, double validation = 0) {
  std::string lines;
  for (const auto& [question, answer] : chats)
    lines += Json{{"prompt", question}, {"completion", answer}}.dump() + "\n";
  const Path file = directory.write(name + ".jsonl", lines);
  return chat::prepare({.sources = text::collect_sources({file}),
                        .out = directory / name,
                        .tokenizer = text::Tokenizer::bytes(),
                        .shape = chat::find_template("phi4_mini"),
                        .validation = validation});
}

}  // namespace trireme::harness
