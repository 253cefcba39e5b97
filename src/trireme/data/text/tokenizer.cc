#include "trireme/data/text/tokenizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <unordered_map>

#include "trireme/base/error.h"
#include "trireme/base/hash.h"
#include "trireme/data/text/bpe.h"
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
    utf8proc_int32_t code = 0;
    const auto rest = static_cast<utf8proc_ssize_t>(std::min<std::size_t>(text.size() - at, 4));
    const utf8proc_ssize_t size =
        utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()) + at, rest, &code);
    if (size <= 0)
      fail(ErrorKind::kData,
           "the text is not valid UTF-8 at byte {}; the bytes tokenizer takes any text", at);
    visit(code, text.substr(at, static_cast<std::size_t>(size)));
    at += static_cast<std::size_t>(size);
  }
}

}  // namespace

struct Tokenizer::Chars {
  std::vector<std::string> characters;
  std::unordered_map<std::int32_t, std::int32_t> ids;  // by code point
};

struct Tokenizer::HuggingFace {
  std::string source;
  Bpe bpe;
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
  made.file_.reset(new HuggingFace{.source = std::string(json), .bpe = Bpe(json, what)});
  return made;
}

Tokenizer Tokenizer::from_description(std::string_view json, const std::string& what) {
  const Json parsed = parse_json(json, what);
  const formats::JsonFields fields(parsed, what);
  fields.only({"format", "version", "kind", "characters", "source", "ends", "begin"});
  fields.need_format(kTokenizerFormat, kTokenizerVersion, "prepare the data again");
  std::vector<std::int32_t> ends;
  if (fields.has("ends"))
    for (const Json& id : fields.array("ends"))
      ends.push_back(static_cast<std::int32_t>(
          formats::json_integer(id, what + ": ends", 0, std::numeric_limits<std::int32_t>::max())));
  const Tokenizer made = described(fields, what).with_ends(std::move(ends));
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
  if (kind == "bpe") return hugging_face(fields.string("source"), what + ": source");
  fail(ErrorKind::kData, "{}: tokenizer kind {}; bytes, characters or bpe is needed", what,
       formats::shown(kind));
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

const char* Tokenizer::kind() const { return chars_ ? "characters" : file_ ? "bpe" : "bytes"; }

std::string Tokenizer::description() const {
  Json json{{"format", kTokenizerFormat}, {"version", kTokenizerVersion}, {"kind", kind()}};
  if (chars_) json["characters"] = characters();
  if (file_) json["source"] = file_->source;
  if (!ends_.empty()) json["ends"] = ends_;
  if (begin_) json["begin"] = *begin_;
  return json.dump(1) + "\n";
}

std::string Tokenizer::tokenizer_json() const {
  if (chars_)
    fail(ErrorKind::kUsage,
         "a characters tokenizer has no tokenizer.json: it cannot encode all text; use bytes or "
         "bpe:N");
  return file_ ? file_->source : bytes_tokenizer_json();
}

std::string Tokenizer::digest() const {
  if (chars_) return hex64(hash64("characters\n" + characters()));
  static const std::uint64_t kBytes =
      Bpe(std::string_view(bytes_tokenizer_json()), "bytes").digest();
  return hex64(file_ ? file_->bpe.digest() : kBytes);
}

std::string Tokenizer::characters() const {
  TRIREME_CHECK(chars_, "a {} tokenizer has no list of characters", kind());
  std::string all;
  for (const std::string& character : chars_->characters) all += character;
  return all;
}

std::int32_t Tokenizer::vocab_size() const {
  if (chars_) return static_cast<std::int32_t>(chars_->characters.size());
  return file_ ? file_->bpe.vocab_size() : 256;
}

void Tokenizer::encode(std::string_view text, std::vector<std::int32_t>& out) const {
  if (file_) {
    file_->bpe.encode(text, out);
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

void Tokenizer::encode_document(std::string_view text, std::vector<std::int32_t>& out) const {
  if (!file_) return encode(text, out);
  const AroundText& around = file_->bpe.around();
  out.insert(out.end(), around.before.begin(), around.before.end());
  encode(text, out);
  out.insert(out.end(), around.after.begin(), around.after.end());
}

std::vector<std::int32_t> Tokenizer::encode_prompt(std::string_view text) const {
  std::vector<std::int32_t> out;
  if (begin_) out.push_back(*begin_);
  if (file_) out = file_->bpe.around().before;
  encode(text, out);
  return out;
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids) const {
  if (file_) return file_->bpe.decode(ids);
  const std::int32_t vocab = vocab_size();
  std::string out;
  for (const std::int32_t id : ids) {
    if (id < 0 || id >= vocab)
      fail(ErrorKind::kData, "token {} is not in the vocabulary of {}", id, vocab);
    if (chars_)
      out += chars_->characters[static_cast<std::size_t>(id)];
    else
      out += static_cast<char>(id);
  }
  return out;
}

std::int32_t Tokenizer::added_token(std::string_view content) const {
  const std::int32_t id = file_ ? file_->bpe.added_token(content) : -1;
  if (id < 0)
    fail(ErrorKind::kUsage,
         "the {} tokenizer has no added token {}; name one of its added_tokens or leave it out",
         kind(), formats::shown(content));
  return id;
}

}  // namespace trireme::text
