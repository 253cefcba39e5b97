#include "trireme/data/text/bpe.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <queue>
#include <ranges>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/base/hash.h"
#include "trireme/data/text/byte_level.h"
#include "trireme/formats/json_fields.h"
#include "trireme/formats/shown.h"

namespace trireme::text {
namespace {

constexpr std::int64_t kMaxId = std::numeric_limits<std::int32_t>::max();

// Gaps between ids are legal, but an id far beyond the entries would only allocate.
std::int64_t id_limit(std::size_t entries) {
  return std::min(kMaxId - 1, static_cast<std::int64_t>(entries) + (1 << 16));
}

constexpr std::uint64_t pair_key(std::int32_t left, std::int32_t right) {
  return static_cast<std::uint64_t>(left) << 32 | static_cast<std::uint32_t>(right);
}

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

void refuse_unless_empty(const formats::JsonFields& fields, const char* key) {
  if (!fields.has(key)) return;
  const Json& value = fields.any(key);
  const bool empty = value.is_null() || value == "" || value == false || value == 0.0;
  if (!empty)
    fail(ErrorKind::kData, "{}: {} {} is not supported", fields.where(), key,
         formats::shown(value.dump()));
}

const Json& value_or_null(const Json& json, const std::string& what, const char* key) {
  static const Json kNull;
  return formats::JsonFields(json, what).has(key) ? json[key] : kNull;
}

// With the keys of every object in order.
std::string sorted_text(const Json& json) {
  if (!json.is_structured()) return json.dump();
  std::vector<std::pair<std::string, std::string>> parts;
  for (const auto& [key, value] : json.items()) parts.emplace_back(key, sorted_text(value));
  if (json.is_array()) return fmt::format("[{}]", fmt::join(parts | std::views::values, ","));
  std::ranges::sort(parts);
  std::string text;
  for (const auto& [key, value] : parts)
    text += fmt::format("{}{}:{}", text.empty() ? "" : ",", Json(key).dump(), value);
  return fmt::format("{{{}}}", text);
}

// Without keys that change no id.
std::string rules_of(const Json& json, const std::string& what) {
  std::string text;
  for (const char* key : {"normalizer", "pre_tokenizer"}) {
    Json rules = value_or_null(json, what, key);
    if (rules.is_object()) rules.erase("trim_offsets");
    text += sorted_text(rules) + "\n";
  }
  return text;
}

// A merge changes the size of its left symbol and zeroes its right one. Sizes therefore show whether a queued pair
// still exists.
struct Candidate {
  std::int32_t rank;
  std::int32_t left;
  std::int32_t right;
  std::int32_t left_size;
  std::int32_t right_size;
  std::int32_t result;

  bool operator<(const Candidate& other) const {
    return rank != other.rank ? rank > other.rank : left > other.left;
  }
};

struct Symbol {
  std::int32_t id;
  std::int32_t previous;
  std::int32_t next;
  std::int32_t size;  // bytes; 0 once merged into its left neighbour
};

}  // namespace

struct Bpe::Part {
  std::string_view text;
  std::int32_t token = -1;  // an added token in place of text
};

Bpe::Bpe(std::string_view text, const std::string& what) : Bpe(parse_json(text, what), what) {}

Bpe::Bpe(const Json& json, const std::string& what)
    : rules_(rules_of(json, what)),
      around_(read_post_processor(value_or_null(json, what, "post_processor"),
                                  what + ": post_processor")),
      normalizer_(value_or_null(json, what, "normalizer"), what + ": normalizer"),
      pre_tokenizer_(formats::JsonFields(json, what).any("pre_tokenizer"),
                     what + ": pre_tokenizer") {
  const formats::JsonFields fields(json, what);
  for (const char* key : {"truncation", "padding"})
    if (!value_or_null(json, what, key).is_null())
      fail(
          ErrorKind::kData,
          "{}: {} would change the length of documents, which training does not do; set it to null "
          "in the file",
          what, key);
  const Json& model = fields.object("model");
  read_added(json, what);
  read_vocabulary(model, what + ": model");
  read_merges(model, what + ": model");
  for (const auto* ids : {&around_.before, &around_.after})
    for (const std::int32_t id : *ids)
      if (id >= vocab_size() || !present_[static_cast<std::size_t>(id)])
        fail(ErrorKind::kData, "{}: post_processor: id {} belongs to no token", what, id);
  if (fields.has("decoder") && !fields.any("decoder").is_null()) {
    const std::string type =
        formats::JsonFields(fields.any("decoder"), what + ": decoder").string("type");
    if (type != "ByteLevel")
      fail(ErrorKind::kData, "{}: decoder {} is not supported; ByteLevel is", what,
           formats::shown(type));
  }
}

void Bpe::place(std::int32_t id, std::string bytes, const std::string& what) {
  const auto at = static_cast<std::size_t>(id);
  if (at >= tokens_.size()) {
    tokens_.resize(at + 1);
    present_.resize(at + 1);
  }
  if (present_[at])
    fail(ErrorKind::kData, "{}: id {} belongs to {} and to {}", what, id,
         formats::shown(tokens_[at]), formats::shown(bytes));
  present_[at] = true;
  tokens_[at] = std::move(bytes);
}

void Bpe::read_added(const Json& json, const std::string& what) {
  if (!json.contains("added_tokens")) return;
  const Json& list = formats::JsonFields(json, what).array("added_tokens");
  const std::size_t entries =
      formats::JsonFields(json["model"], what + ": model").object("vocab").size();
  for (const Json& item : list) {
    const formats::JsonFields fields(item, what + ": added token");
    Added added{
        .content = fields.string("content"),
        .id = static_cast<std::int32_t>(fields.integer("id", 0, id_limit(entries + list.size()))),
        .left_strip = fields.boolean("lstrip"),
        .right_strip = fields.boolean("rstrip"),
        .normalized = fields.boolean("normalized")};
    if (added.content.empty())
      fail(ErrorKind::kData, "{}: added token {} is empty", what, added.id);
    if (fields.boolean("single_word"))
      fail(ErrorKind::kData, "{}: added token {} has single_word, which is not supported", what,
           formats::shown(added.content));
    place(added.id, added.content, what);
    added_begins_[static_cast<unsigned char>(added.content[0])] = true;
    added_.push_back(std::move(added));
  }
  std::stable_sort(added_.begin(), added_.end(),
                   [](auto& a, auto& b) { return a.content.size() > b.content.size(); });
}

void Bpe::read_vocabulary(const Json& model, const std::string& what) {
  const formats::JsonFields fields(model, what);
  if (fields.has("type") && fields.string("type") != "BPE")
    fail(ErrorKind::kData, "{}: type {} is not supported; BPE is", what,
         formats::shown(fields.string("type")));
  for (const char* key :
       {"dropout", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback"})
    refuse_unless_empty(fields, key);
  if (fields.has("ignore_merges")) ignore_merges_ = fields.boolean("ignore_merges");

  const Json& vocab = fields.object("vocab");
  std::unordered_map<std::string_view, std::int32_t> added;
  for (const Added& token : added_) added.emplace(token.content, token.id);
  for (const auto& item : vocab.items()) {
    const auto id = static_cast<std::int32_t>(formats::json_integer(
        item.value(), what + ": id of " + formats::shown(item.key()), 0, id_limit(vocab.size())));
    // Files repeat their added tokens here, spelled as they are.
    if (const auto known = added.find(item.key()); known != added.end() && known->second == id)
      continue;
    std::string bytes = bytes_of_entry(item.key(), what);
    if (bytes.empty()) fail(ErrorKind::kData, "{}: the empty string has id {}", what, id);
    ids_.emplace(bytes, id);
    place(id, std::move(bytes), what);
  }
  for (int byte = 0; byte < 256; ++byte) {
    const auto found = ids_.find(std::string(1, static_cast<char>(byte)));
    if (found == ids_.end())
      fail(ErrorKind::kData, "{}: byte {} has no token, so some text could not be encoded", what,
           byte);
    byte_ids_[byte] = found->second;
  }
}

void Bpe::read_merges(const Json& model, const std::string& what) {
  std::int32_t rank = 0;
  for (const Json& merge : formats::JsonFields(model, what).array("merges")) {
    const std::string where = fmt::format("{}: merge {}", what, rank);
    std::string left, right;
    if (merge.is_string()) {
      const std::string text = merge.get<std::string>();
      const std::size_t space = text.find(' ');
      if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos)
        fail(ErrorKind::kData, "{}: {} is not two entries with a space between", where,
             formats::shown(text));
      left = text.substr(0, space);
      right = text.substr(space + 1);
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() &&
               merge[1].is_string()) {
      left = merge[0].get<std::string>();
      right = merge[1].get<std::string>();
    } else {
      fail(ErrorKind::kData, "{}: is neither \"a b\" nor [\"a\", \"b\"]", where);
    }
    const auto id_of = [&](const std::string& bytes) {
      const auto found = ids_.find(bytes);
      if (found == ids_.end())
        fail(ErrorKind::kData, "{}: {} is not in the vocabulary", where, formats::shown(bytes));
      return found->second;
    };
    left = bytes_of_entry(left, where);
    right = bytes_of_entry(right, where);
    merges_.insert_or_assign(pair_key(id_of(left), id_of(right)),
                             Merge{.rank = rank, .result = id_of(left + right)});
    ++rank;
  }
}

const Bpe::Added* Bpe::added_at(std::string_view text, bool normalized) const {
  if (!added_begins_[static_cast<unsigned char>(text[0])]) return nullptr;
  const auto found = std::find_if(added_.begin(), added_.end(), [&](const Added& a) {
    return a.normalized == normalized && text.starts_with(a.content);
  });
  return found == added_.end() ? nullptr : &*found;
}

std::vector<Bpe::Part> Bpe::split_added(std::string_view text, bool normalized) const {
  std::vector<Part> parts;
  std::size_t plain = 0;  // where the text not yet handed out begins
  for (std::size_t at = 0; at < text.size();) {
    const Added* added = added_at(text.substr(at), normalized);
    if (added == nullptr) {
      ++at;
      continue;
    }
    std::size_t begin = at, end = at + added->content.size();
    while (added->left_strip && begin > plain && is_space(text[begin - 1])) --begin;
    while (added->right_strip && end < text.size() && is_space(text[end])) ++end;
    if (begin > plain) parts.push_back({.text = text.substr(plain, begin - plain)});
    parts.push_back({.text = {}, .token = added->id});
    plain = at = end;
  }
  if (plain < text.size()) parts.push_back({.text = text.substr(plain)});
  return parts;
}

void Bpe::encode(std::string_view text, std::vector<std::int32_t>& out) const {
  for (const Part& part : split_added(text, false)) {
    if (part.token >= 0) {
      out.push_back(part.token);
      continue;
    }
    const std::string normal = normalizer_.changes() ? normalizer_.apply(part.text) : std::string();
    for (const Part& inner : split_added(normalizer_.changes() ? normal : part.text, true)) {
      if (inner.token >= 0)
        out.push_back(inner.token);
      else
        encode_plain(inner.text, out);
    }
  }
}

void Bpe::encode_plain(std::string_view text, std::vector<std::int32_t>& out) const {
  constexpr std::size_t kCachedWords = std::size_t{1} << 18;
  std::unordered_map<std::string_view, std::vector<std::int32_t>> cache;
  std::string storage;
  for (const std::string_view word : pre_tokenizer_.split(text, storage)) {
    const auto [entry, fresh] = cache.try_emplace(word);
    if (fresh) merge_word(word, entry->second);
    out.insert(out.end(), entry->second.begin(), entry->second.end());
    if (cache.size() == kCachedWords) cache.clear();
  }
}

void Bpe::merge_word(std::string_view word, std::vector<std::int32_t>& out) const {
  if (ignore_merges_)
    if (const auto whole = ids_.find(std::string(word)); whole != ids_.end()) {
      out.push_back(whole->second);
      return;
    }
  if (word.size() > static_cast<std::size_t>(kMaxId))
    fail(ErrorKind::kData, "{} bytes without a break are too long to encode", word.size());
  std::vector<Symbol> symbols(word.size());
  std::priority_queue<Candidate> queue;
  const auto consider = [&](std::int32_t left, std::int32_t right) {
    if (left < 0 || right < 0) return;
    const Symbol& a = symbols[static_cast<std::size_t>(left)];
    const Symbol& b = symbols[static_cast<std::size_t>(right)];
    if (const auto merge = merges_.find(pair_key(a.id, b.id)); merge != merges_.end())
      queue.push({merge->second.rank, left, right, a.size, b.size, merge->second.result});
  };
  const auto last = static_cast<std::int32_t>(word.size()) - 1;
  for (std::int32_t i = 0; i <= last; ++i)
    symbols[static_cast<std::size_t>(i)] = {
        byte_ids_[static_cast<unsigned char>(word[static_cast<std::size_t>(i)])], i - 1,
        i == last ? -1 : i + 1, 1};
  for (std::int32_t i = 0; i < last; ++i) consider(i, i + 1);
  while (!queue.empty()) {
    const Candidate best = queue.top();
    queue.pop();
    Symbol& left = symbols[static_cast<std::size_t>(best.left)];
    Symbol& right = symbols[static_cast<std::size_t>(best.right)];
    if (left.size != best.left_size || right.size != best.right_size) continue;
    left = {best.result, left.previous, right.next, left.size + right.size};
    right.size = 0;
    if (left.next >= 0) symbols[static_cast<std::size_t>(left.next)].previous = best.left;
    consider(left.previous, best.left);
    consider(best.left, left.next);
  }
  for (const Symbol& symbol : symbols)
    if (symbol.size > 0) out.push_back(symbol.id);
}

std::string Bpe::decode(std::span<const std::int32_t> ids) const {
  std::string out;
  for (const std::int32_t id : ids) {
    if (id < 0 || id >= vocab_size() || !present_[static_cast<std::size_t>(id)])
      fail(ErrorKind::kData, "token {} is not in the vocabulary of {}", id, vocab_size());
    out += tokens_[static_cast<std::size_t>(id)];
  }
  return out;
}

std::uint64_t Bpe::digest() const {
  std::string all = fmt::format("{}{}\n", rules_, ignore_merges_);
  for (std::size_t id = 0; id < tokens_.size(); ++id)
    if (present_[id]) all += fmt::format("{} {} ", id, tokens_[id].size()) + tokens_[id];
  std::vector<std::pair<Merge, std::uint64_t>> merges;
  for (const auto& [pair, merge] : merges_) merges.emplace_back(merge, pair);
  std::ranges::sort(merges, {}, [](const auto& merge) { return merge.first.rank; });
  for (const auto& [merge, pair] : merges) all += fmt::format("{} {} ", pair, merge.result);
  for (const Added& added : added_)
    all +=
        fmt::format("\n{} {}{}{}", added.id, added.left_strip, added.right_strip, added.normalized);
  for (const auto* ids : {&around_.before, &around_.after}) {
    all += '\n';
    for (const std::int32_t id : *ids) all += fmt::format("{} ", id);
  }
  return hash64(all);
}

std::int32_t Bpe::added_token(std::string_view content) const {
  const auto found =
      std::find_if(added_.begin(), added_.end(), [&](auto& a) { return a.content == content; });
  return found == added_.end() ? -1 : found->id;
}

}  // namespace trireme::text
