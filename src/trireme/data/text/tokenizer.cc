#include "trireme/data/text/tokenizer.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <unordered_map>

#include "trireme/base/error.h"
#include "trireme/base/hash.h"
#include "trireme/data/text/tokenizer/base64.h"
#include "trireme/data/text/tokenizer/sentencepiece.h"
#include "trireme/data/text/tokenizer/utf8.h"
#include "trireme/data/text/tokenizer_json.h"
#include "trireme/formats/json_fields.h"
#include "trireme/formats/shown.h"

namespace trireme::text {
namespace {

constexpr char kTokenizerFormat[] = "trireme.tokenizer";
constexpr std::int64_t kTokenizerVersion = 1;

// Calls visit(code point, its bytes) for each character.
template <typename Visit>
void each_character(std::string_view text, Visit&& visit) {
  for (std::size_t at = 0; at < text.size();) {
    const Character character = character_at(text, at);
    if (character.code < 0)
      fail(ErrorKind::kData,
           "the text is not valid UTF-8 at byte {}; the bytes tokenizer takes any text", at);
    visit(character.code, text.substr(at, character.size));
    at += character.size;
  }
}

}  // namespace

struct Tokenizer::Chars {
  std::vector<std::string> characters;
  std::unordered_map<std::int32_t, std::int32_t> ids;  // by code point
};

struct Tokenizer::FromFile {
  std::string content;
  bool sentencepiece = false;
  Codec codec;
};

Tokenizer Tokenizer::bytes() { return {}; }

Tokenizer Tokenizer::chars(std::string_view text) {
  std::set<std::pair<std::int32_t, std::string_view>> found;
  each_character(text,
                 [&](std::int32_t code, std::string_view bytes) { found.emplace(code, bytes); });
  if (found.empty())
    fail(ErrorKind::kData, "the text is empty, so there are no characters to make a vocabulary of");
  auto chars = std::make_shared<Chars>();
  for (const auto& [code, bytes] : found) {
    chars->ids.emplace(code, static_cast<std::int32_t>(chars->characters.size()));
    chars->characters.emplace_back(bytes);
  }
  Tokenizer made;
  made.chars_ = std::move(chars);
  return made;
}

Tokenizer Tokenizer::hugging_face(std::string_view json, const std::string& what) {
  Tokenizer made;
  made.file_.reset(
      new FromFile{.content = std::string(json), .codec = read_tokenizer_json(json, what)});
  return made;
}

Tokenizer Tokenizer::sentencepiece(std::string_view model, const std::string& what) {
  SentencePieceModel read = read_sentencepiece(model, what);
  Tokenizer made;
  made.file_.reset(new FromFile{
      .content = std::string(model), .sentencepiece = true, .codec = std::move(read.codec)});
  made.begin_ = read.begin;
  if (read.end) made.ends_ = {*read.end};
  return made;
}

Tokenizer Tokenizer::from_description(std::string_view json, const std::string& what) {
  const Json parsed = parse_json(json, what);
  const formats::JsonFields fields(parsed, what);
  fields.only({"format", "version", "kind", "characters", "source", "model", "ends", "begin"});
  fields.need_format(kTokenizerFormat, kTokenizerVersion, "prepare the data again");
  std::vector<std::int32_t> ends;
  if (fields.has("ends"))
    for (const Json& id : fields.array("ends"))
      ends.push_back(static_cast<std::int32_t>(
          formats::json_integer(id, what + ": ends", 0, std::numeric_limits<std::int32_t>::max())));
  Tokenizer made = described(fields, what).with_ends(std::move(ends));
  made.begin_.reset();
  if (!fields.has("begin")) return made;
  return made.with_begin(static_cast<std::int32_t>(
      fields.integer("begin", 0, std::numeric_limits<std::int32_t>::max())));
}

Tokenizer Tokenizer::described(const formats::JsonFields& fields, const std::string& what) {
  const std::string kind = fields.string("kind");
  if (kind == "bytes") return bytes();
  if (kind == "characters") {
    const std::string characters = fields.string("characters");
    const Tokenizer made = chars(characters);
    if (made.characters() != characters)
      fail(ErrorKind::kData, "{}: characters must be in code-point order, each once", what);
    return made;
  }
  if (kind != "bpe" && kind != "unigram" && kind != "wordpiece" && kind != "wordlevel")
    fail(ErrorKind::kData,
         "{}: tokenizer kind {}; bytes, characters, bpe, unigram, wordpiece or wordlevel is needed",
         what, formats::shown(kind));
  const Tokenizer made =
      fields.has("model") ? sentencepiece(bytes_of_base64(fields.string("model"), what + ": model"),
                                          what + ": model")
                          : hugging_face(fields.string("source"), what + ": source");
  if (made.kind() != kind)
    fail(ErrorKind::kData, "{}: kind is {}, its vocabulary is {}", what, formats::shown(kind),
         made.kind());
  return made;
}

Tokenizer Tokenizer::with_ends(std::vector<std::int32_t> ends) const {
  for (const std::int32_t id : ends)
    if (id < 0 || id >= vocab_size())
      fail(ErrorKind::kData, "end of text: token {} is not in the vocabulary of {}", id,
           vocab_size());
  Tokenizer made = *this;
  made.ends_ = std::move(ends);
  return made;
}

Tokenizer Tokenizer::with_begin(std::int32_t begin) const {
  if (begin < 0 || begin >= vocab_size())
    fail(ErrorKind::kData, "begin of text: token {} is not in the vocabulary of {}", begin,
         vocab_size());
  Tokenizer made = *this;
  made.begin_ = begin;
  return made;
}

const char* Tokenizer::kind() const {
  return chars_ ? "characters" : file_ ? file_->codec.kind() : "bytes";
}

std::string Tokenizer::description() const {
  Json json{{"format", kTokenizerFormat}, {"version", kTokenizerVersion}, {"kind", kind()}};
  if (chars_) json["characters"] = characters();
  if (file_ && file_->sentencepiece) json["model"] = base64(file_->content);
  if (file_ && !file_->sentencepiece) json["source"] = file_->content;
  if (!ends_.empty()) json["ends"] = ends_;
  if (begin_) json["begin"] = *begin_;
  return json.dump(1) + "\n";
}

Tokenizer::File Tokenizer::file() const {
  if (chars_)
    fail(ErrorKind::kUsage,
         "a characters tokenizer has no tokenizer.json: it cannot encode all text; use bytes or "
         "bpe:N");
  if (!file_) return {"tokenizer.json", bytes_tokenizer_json()};
  return {file_->sentencepiece ? "tokenizer.model" : "tokenizer.json", file_->content};
}

std::string Tokenizer::tokenizer_json() const {
  File written = file();
  if (file_ && file_->sentencepiece)
    fail(ErrorKind::kUsage,
         "a SentencePiece model has no tokenizer.json; copy its tokenizer.model instead");
  return std::move(written.content);
}

std::string Tokenizer::digest() const {
  if (chars_) return hex64(hash64("characters\n" + characters()));
  static const std::uint64_t kBytes = read_tokenizer_json(bytes_tokenizer_json(), "bytes").digest();
  return hex64(file_ ? file_->codec.digest() : kBytes);
}

std::string Tokenizer::characters() const {
  TRIREME_CHECK(chars_, "a {} tokenizer has no list of characters", kind());
  std::string all;
  for (const std::string& character : chars_->characters) all += character;
  return all;
}

std::int32_t Tokenizer::vocab_size() const {
  if (chars_) return static_cast<std::int32_t>(chars_->characters.size());
  return file_ ? file_->codec.vocab_size() : 256;
}

void Tokenizer::encode(std::string_view text, std::vector<std::int32_t>& out) const {
  if (file_) {
    file_->codec.encode(text, Specials::kRecognized, out);
  } else if (chars_) {
    each_character(text, [&](std::int32_t code, std::string_view bytes) {
      const auto found = chars_->ids.find(code);
      if (found == chars_->ids.end())
        fail(ErrorKind::kData, "character {} is not among the {} of this tokenizer",
             formats::shown(bytes), vocab_size());
      out.push_back(found->second);
    });
  } else {
    for (const char c : text) out.push_back(static_cast<unsigned char>(c));
  }
}

std::vector<std::int32_t> Tokenizer::encode(std::string_view text) const {
  std::vector<std::int32_t> out;
  encode(text, out);
  return out;
}

std::vector<TokenSpan> Tokenizer::encode_spans(std::string_view text, Specials specials) const {
  std::vector<TokenSpan> out;
  if (file_) {
    file_->codec.encode_spans(text, specials, out);
    return out;
  }
  std::size_t at = 0;
  for (const std::int32_t id : encode(text)) {
    const std::size_t size = chars_ ? chars_->characters[id].size() : 1;
    out.push_back({id, at, at + size});
    at += size;
  }
  return out;
}

void Tokenizer::encode_document(std::string_view text, std::vector<std::int32_t>& out) const {
  if (!file_) return encode(text, out);
  const AroundText& around = file_->codec.around();
  out.insert(out.end(), around.before.begin(), around.before.end());
  encode(text, out);
  out.insert(out.end(), around.after.begin(), around.after.end());
}

std::vector<std::int32_t> Tokenizer::encode_prompt(std::string_view text) const {
  std::vector<std::int32_t> out;
  if (begin_) out.push_back(*begin_);
  if (file_) {
    const std::vector<std::int32_t>& before = file_->codec.around().before;
    out.insert(out.end(), before.begin(), before.end());
  }
  encode(text, out);
  return out;
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids) const {
  if (file_) return file_->codec.decode(ids);
  const std::int32_t vocab = vocab_size();
  std::string out;
  for (const std::int32_t id : ids) {
    if (id < 0 || id >= vocab)
      fail(ErrorKind::kData, "token {} is not in the vocabulary of {}", id, vocab);
    if (chars_)
      out += chars_->characters[id];
    else
      out += static_cast<char>(id);
  }
  return out;
}

std::optional<std::int32_t> Tokenizer::find_added_token(std::string_view content) const {
  const std::int32_t id = file_ ? file_->codec.added_token(content) : -1;
  return id < 0 ? std::nullopt : std::optional(id);
}

std::int32_t Tokenizer::added_token(std::string_view content) const {
  if (const std::optional<std::int32_t> id = find_added_token(content)) return *id;
  fail(ErrorKind::kUsage,
       "the {} tokenizer has no added token {}; name one of its added_tokens or leave it out",
       kind(), formats::shown(content));
}

DecodeStream::DecodeStream(Tokenizer tokenizer, std::span<const std::int32_t> before)
    : tokenizer_(std::move(tokenizer)), before_(before.empty() ? -1 : before.back()) {}

std::string DecodeStream::add(std::int32_t id) {
  if (!tokenizer_.file_ || !tokenizer_.file_->codec.decodes_in_context())
    return tokenizer_.decode(std::span(&id, 1));
  const Codec& codec = tokenizer_.file_->codec;
  if (!codec.byte_of(id)) {
    std::string out = finish();
    held_ = {id};
    return out + finish();
  }
  held_.push_back(id);
  std::string bytes;
  for (const std::int32_t one : held_) bytes += *codec.byte_of(one);
  return may_become_character(bytes) ? "" : finish();
}

std::string DecodeStream::finish() {
  if (held_.empty()) return "";
  const Codec& codec = tokenizer_.file_->codec;
  // Bytes before would join those that follow.
  const bool joins = before_ >= 0 && codec.byte_of(before_);
  std::string out = codec.decode_after(joins ? -1 : before_, held_);
  before_ = held_.back();
  held_.clear();
  return out;
}

}  // namespace trireme::text
