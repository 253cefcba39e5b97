// From the texts of tokens to text: a tokenizer.json's "decoder".
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/base/json.h"

namespace trireme::text {

// Changes the texts of tokens, which are joined after the last step.
using Decoder = std::function<void(std::vector<std::string>&)>;

// Reads a "decoder" as its steps in order: Sequence, ByteLevel, ByteFallback, Fuse, Strip, Replace, Metaspace, WordPiece
// and BPEDecoder; null joins tokens with spaces, or bytes without. With `byte_level`, tokens are bytes already.
// Anything else is Error{kData} naming it and beginning with `what`.
std::vector<Decoder> read_decoders(const Json& json, bool byte_level, const std::string& what);

// The byte that a token such as "<0x0A>" means.
std::optional<char> byte_of_token(std::string_view token);

// Replaces byte tokens by their bytes. Of a run of them that is no UTF-8, each byte becomes U+FFFD; with `by_byte`, only
// the bytes that belong to no character, as SentencePiece does.
void join_bytes(std::vector<std::string>& tokens, bool by_byte);

}  // namespace trireme::text
