// The tokenizer of questions about pictures.
#pragma once

#include <optional>

#include "trireme/config/job.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/data/text/tokenizer.h"
#include "trireme/job/runs/dataset.h"

namespace trireme::runs {

// The one that data.tokenizer names; none where questions are bytes, and for other samples. Throws Error{kUsage} for one
// that is learned, and as text::read_vocabulary.
std::optional<text::Tokenizer> words_of(const config::Data& data);

// data.chat with the template's name, which auto finds next to this vocabulary. Throws Error{kUsage} for one that
// questions cannot have.
std::string template_of_questions(const std::string& chosen, const Path& vocabulary);

// Sets the ids of its vocabulary, of a picture's place and of the end of a text.
void add_words(const std::optional<text::Tokenizer>& words, config::DatasetFacts& facts);

// Samples with that tokenizer, if they have one, which is then part of their digest, as the template of data.chat is.
LocatedDataset with_words(const config::Data& data, LocatedDataset located);

// Throws Error{kUsage} where neither the tokenizer nor vlm.tokens say the id of a picture's place, or of an answer's end,
// and where the first is no special token.
void check_words(const config::Job& job, const text::Tokenizer& words);

}  // namespace trireme::runs
