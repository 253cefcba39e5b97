// Reads models of SentencePiece (Kudo and Richardson 2018): tokenizer.model, spiece.model.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "trireme/data/text/tokenizer/codec.h"

namespace trireme::text {

struct SentencePieceModel {
  Codec codec;
  std::optional<std::int32_t> begin;  // ids of <s> and </s>, where the model has them
  std::optional<std::int32_t> end;
};

// Whether bytes begin as such a model does, and as no JSON.
bool is_sentencepiece(std::string_view bytes);

// Reads a model of type unigram or BPE from untrusted bytes. Ids equal those of the library's encode, which adds neither
// begin nor end. Control tokens are never found in a text. Throws Error{kData} beginning with `what`.
SentencePieceModel read_sentencepiece(std::string_view bytes, const std::string& what);

}  // namespace trireme::text
