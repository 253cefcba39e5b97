#include "trireme/data/text/tokenizer/codec.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/base/hash.h"
#include "trireme/data/text/tokenizer/utf8.h"
#include "trireme/formats/shown.h"

namespace trireme::text {
namespace {

// Tokens of words that were seen before.
class WordCache {
 public:
  explicit WordCache(const Model& model) : model_(model) {}

  const std::vector<WordToken>& tokens(std::string_view word) {
    constexpr std::size_t kCachedWords = std::size_t{1} << 18, kLongest = 256;
    if (word.size() > kLongest) {
      long_.clear();
      model_.encode(word, long_);
      return long_;
    }
    if (const auto known = words_.find(word); known != words_.end()) return known->second;
    if (words_.size() == kCachedWords) words_.clear();
    std::vector<WordToken>& made = words_[std::string(word)];
    model_.encode(word, made);
    return made;
  }

 private:
  const Model& model_;
  std::unordered_map<std::string, std::vector<WordToken>, HashText, std::equal_to<>> words_;
  std::vector<WordToken> long_;
};

}  // namespace

void TokenTable::place(std::int32_t id, std::string text, const std::string& what) {
  const auto at = static_cast<std::size_t>(id);
  if (at >= texts_.size()) {
    texts_.resize(at + 1);
    present_.resize(at + 1);
  }
  if (present_[at])
    fail(ErrorKind::kData, "{}: id {} belongs to {} and to {}", what, id,
         formats::shown(texts_[at]), formats::shown(text));
  present_[at] = true;
  texts_[at] = std::move(text);
}

bool TokenTable::has(std::int32_t id) const { return id >= 0 && id < size() && present_[id]; }

const std::string& TokenTable::text(std::int32_t id) const {
  if (!has(id)) fail(ErrorKind::kData, "token {} is not in the vocabulary of {}", id, size());
  return texts_[id];
}

Codec::Codec(Parts parts)
    : parts_(std::move(parts)),
      raw_(parts_.added, false, {}),
      normalized_(parts_.added, true, parts_.normalizers) {
  for (std::int32_t id = 0; decodes_in_context() && neutral_ < 0 && id < vocab_size(); ++id)
    if (parts_.tokens.has(id) && !byte_of(id) && !decode(std::span(&id, 1)).empty()) neutral_ = id;
}

template <typename Add>
void Codec::encode_parts(std::string_view text, Specials specials, bool tracked, Add&& add) const {
  if (parts_.needs_utf8) need_utf8(text);
  tracked |= parts_.pre_tokenizers.needs_sources;
  WordCache cache(*parts_.model);
  const auto encode_words = [&](Aligned part) {
    const std::size_t size = part.text().size();
    Words words{.text = std::move(part), .ranges = {{0, size}}};
    for (const PreTokenizer& step : parts_.pre_tokenizers.steps) step(words);
    for (const Range& word : words.ranges)
      for (const WordToken& token : cache.tokens(slice(words.text.text(), word)))
        add(token.id, words.text, Range{word.begin + token.begin, word.begin + token.end});
  };
  for (const AddedPart& outer : raw_.split(text, specials)) {
    Aligned part(slice(text, outer.range), outer.range.begin, tracked);
    if (outer.id >= 0) {
      add(outer.id, part, Range{0, part.text().size()});
      continue;
    }
    for (const Normalizer& normalizer : parts_.normalizers) normalizer(part);
    for (const AddedPart& inner : normalized_.split(part.text(), specials)) {
      if (inner.id >= 0)
        add(inner.id, part, inner.range);
      else
        encode_words(part.part(inner.range));
    }
  }
}

void Codec::encode(std::string_view text, Specials specials, std::vector<std::int32_t>& out) const {
  encode_parts(text, specials, false,
               [&](std::int32_t id, const Aligned&, Range) { out.push_back(id); });
}

void Codec::encode_spans(std::string_view text, Specials specials,
                         std::vector<TokenSpan>& out) const {
  encode_parts(text, specials, true, [&](std::int32_t id, const Aligned& part, Range range) {
    const Range source = part.source(range);
    out.push_back({id, source.begin, source.end});
  });
}

std::string Codec::decode(std::span<const std::int32_t> ids) const {
  std::string out;
  if (!decodes_in_context()) {
    for (const std::int32_t id : ids) out += parts_.tokens.text(id);
    return out;
  }
  if (ids.empty()) return out;
  std::vector<std::string> tokens;
  for (const std::int32_t id : ids) tokens.push_back(parts_.tokens.text(id));
  for (const Decoder& step : parts_.decoders) step(tokens);
  for (const std::string& token : tokens) out += token;
  return out;
}

std::string Codec::decode_after(std::int32_t before, std::span<const std::int32_t> ids) const {
  if (before < 0) before = neutral_;
  if (before < 0) return decode(ids);
  std::vector<std::int32_t> all{before};
  const std::size_t shown = decode(all).size();
  all.insert(all.end(), ids.begin(), ids.end());
  return decode(all).substr(shown);
}

std::optional<char> Codec::byte_of(std::int32_t id) const {
  return decodes_in_context() ? byte_of_token(parts_.tokens.text(id)) : std::nullopt;
}

std::uint64_t Codec::digest() const {
  const Model::Rules model = parts_.model->rules();
  std::string all = parts_.rules + model.before;
  for (std::int32_t id = 0; id < vocab_size(); ++id)
    if (parts_.tokens.has(id)) {
      const std::string& text = parts_.tokens.text(id);
      all += fmt::format("{} {} ", id, text.size()) + text;
    }
  all += model.after;
  std::vector<AddedToken> added = parts_.added;
  std::ranges::stable_sort(added, std::greater<>(),
                           [](const AddedToken& token) { return token.content.size(); });
  for (const AddedToken& token : added)
    all += fmt::format("\n{} {}{}{}{}", token.id, token.left_strip, token.right_strip,
                       token.normalized, token.single_word ? " word" : "");
  for (const auto* ids : {&parts_.around.before, &parts_.around.after}) {
    all += '\n';
    for (const std::int32_t id : *ids) all += fmt::format("{} ", id);
  }
  return hash64(all);
}

std::int32_t Codec::added_token(std::string_view content) const {
  for (const auto* tokens : {&parts_.added, &parts_.findable})
    if (const auto found = std::ranges::find(*tokens, content, &AddedToken::content);
        found != tokens->end())
      return found->id;
  return -1;
}

}  // namespace trireme::text
