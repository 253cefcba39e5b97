// Changes a text before it is cut into words: a tokenizer.json's "normalizer".
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "trireme/base/json.h"
#include "trireme/data/text/tokenizer/aligned.h"

namespace trireme::text {

using Normalizer = std::function<void(Aligned&)>;

// Unicode normalisation form of UAX 15; changed bytes come from the whole group of characters that combine.
enum class UnicodeForm { kNfc, kNfd, kNfkc, kNfkd };
void normalize(Aligned& text, UnicodeForm form);

// Reads null or a "normalizer" as its steps in order: Sequence, NFC, NFD, NFKC, NFKD, Lowercase, Strip, StripAccents,
// Replace, Prepend, Precompiled, Nmt, BertNormalizer. Anything else is Error{kData} naming it and beginning with `what`.
std::vector<Normalizer> read_normalizers(const Json& json, const std::string& what);

}  // namespace trireme::text
