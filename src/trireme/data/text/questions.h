// Questions with several possible answers, of which one is right, as lines of JSON have them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "trireme/base/fs.h"
#include "trireme/data/text/tokenizer.h"

namespace trireme::text {

struct Question {
  std::string context;
  std::vector<std::string> choices;  // at least two
  std::size_t answer = 0;            // the right one
};

// Reads a .jsonl file of {"query" or "context", "choices", "gold" or "answer"}, the last a number from 0. Throws
// Error{kData} that names line and key.
std::vector<Question> read_questions(const Path& file);

// A context with one of its answers.
struct Continuation {
  std::vector<std::int64_t> ids;
  std::size_t begin = 0;       // of the answer, above 0
  std::size_t characters = 0;  // of the answer
};

// The ids of each choice after its context, with a space between. They are cut as EleutherAI's evaluation harness does: the
// whole is encoded, and the answer begins after as many ids as the context has without its last spaces. Throws Error{kData}
// for a context without an id.
std::vector<Continuation> continuations(const Question& question, const Tokenizer& tokenizer);

}  // namespace trireme::text
