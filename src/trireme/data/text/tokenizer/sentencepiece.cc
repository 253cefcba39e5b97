#include "trireme/data/text/tokenizer/sentencepiece.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <ranges>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/data/text/tokenizer/charsmap.h"
#include "trireme/data/text/tokenizer/models/piece_merges.h"
#include "trireme/data/text/tokenizer/models/unigram.h"
#include "trireme/data/text/tokenizer/protobuf.h"
#include "trireme/data/text/tokenizer/utf8.h"
#include "trireme/formats/shown.h"

namespace trireme::text {
namespace {

enum PieceType { kNormal = 1, kUnknown, kControl, kUserDefined, kUnused, kByte };

struct Piece {
  std::string text;
  float score = 0;
  std::int64_t type = kNormal;
};

// Numbers and defaults of sentencepiece_model.proto.
struct ModelFile {
  std::vector<Piece> pieces;
  std::int64_t type = 1;  // unigram 1, bpe 2, word 3, char 4
  bool space_as_suffix = false;
  bool byte_fallback = false;
  std::string unknown_text = " \xE2\x81\x87 ";
  std::string begin = "<s>", end = "</s>";
  std::string charsmap;
  bool dummy_prefix = true, removes_spaces = true, marks_spaces = true;
};

void read_piece(ProtobufFields fields, ModelFile& file) {
  Piece piece;
  while (fields.next()) {
    if (fields.number() == 1) piece.text = fields.bytes();
    if (fields.number() == 2) piece.score = fields.number32();
    if (fields.number() == 3) piece.type = fields.integer();
  }
  if (piece.text.empty()) fail(ErrorKind::kData, "{}: has no text", fields.what());
  if (piece.type < kNormal || piece.type > kByte)
    fail(ErrorKind::kData, "{}: type {} is unknown; 1 to 6 are known", fields.what(), piece.type);
  if (!std::isfinite(piece.score))
    fail(ErrorKind::kData, "{}: its score is not a finite number", fields.what());
  file.pieces.push_back(std::move(piece));
}

void read_trainer(ProtobufFields fields, ModelFile& file) {
  while (fields.next()) switch (fields.number()) {
      case 3: file.type = fields.integer(); break;
      case 24: file.space_as_suffix = fields.boolean(); break;
      case 35: file.byte_fallback = fields.boolean(); break;
      case 44: file.unknown_text = fields.bytes(); break;
      case 46: file.begin = fields.bytes(); break;
      case 47: file.end = fields.bytes(); break;
      default: break;
    }
}

void read_normalizer(ProtobufFields fields, ModelFile& file) {
  while (fields.next()) switch (fields.number()) {
      case 2: file.charsmap = fields.bytes(); break;
      case 3: file.dummy_prefix = fields.boolean(); break;
      case 4: file.removes_spaces = fields.boolean(); break;
      case 5: file.marks_spaces = fields.boolean(); break;
      default: break;
    }
}

void refuse_denormalizer(ProtobufFields fields) {
  while (fields.next())
    if (fields.number() == 2 && !fields.bytes().empty())
      fail(ErrorKind::kData, "{}: a precompiled_charsmap is not supported there", fields.what());
}

void check_pieces(const ModelFile& file, const std::string& what) {
  if (file.type != 1 && file.type != 2)
    fail(ErrorKind::kData,
         "{}: trainer_spec: model_type {} is not supported; 1 (unigram) and 2 (bpe) are", what,
         file.type);
  const auto count = [&](PieceType type) {
    return std::ranges::count(file.pieces, static_cast<std::int64_t>(type), &Piece::type);
  };
  if (count(kUnknown) != 1)
    fail(ErrorKind::kData, "{}: {} tokens of type unknown; one is needed", what, count(kUnknown));
  if (file.byte_fallback ? count(kByte) != 256 : count(kByte) > 0)
    fail(ErrorKind::kData, "{}: {} tokens of type byte with byte_fallback={}; {} are needed", what,
         count(kByte), file.byte_fallback, file.byte_fallback ? 256 : 0);
  TokenIds seen;
  for (const Piece& piece : file.pieces)
    if (!seen.emplace(piece.text, 0).second)
      fail(ErrorKind::kData, "{}: piece {} appears twice", what, formats::shown(piece.text));
}

ModelFile read_file_fields(std::string_view bytes, const std::string& what) {
  ModelFile file;
  ProtobufFields fields(bytes, what);
  while (fields.next()) switch (fields.number()) {
      case 1: read_piece(fields.message(fmt::format("piece {}", file.pieces.size())), file); break;
      case 2: read_trainer(fields.message("trainer_spec"), file); break;
      case 3: read_normalizer(fields.message("normalizer_spec"), file); break;
      case 5: refuse_denormalizer(fields.message("denormalizer_spec")); break;
      default: break;
    }
  check_pieces(file, what);
  return file;
}

// Characters by the charsmap, and spaces as the model says.
class SpaceNormalizer {
 public:
  SpaceNormalizer(const ModelFile& file, const std::string& what)
      : charsmap_(file.charsmap, what + ": normalizer_spec: precompiled_charsmap"),
        dummy_prefix_(file.dummy_prefix),
        suffix_(file.space_as_suffix),
        removes_spaces_(file.removes_spaces),
        space_(file.marks_spaces ? kSpaceMark : " ") {
    std::vector<std::pair<std::string_view, std::int32_t>> entries;
    for (const Piece& piece : file.pieces)
      if (piece.type == kUserDefined) entries.emplace_back(piece.text, 0);
    user_defined_ = Trie(std::move(entries));
  }

  void apply(Aligned& text) const {
    const std::string_view from = text.text();
    Rewrite to(text);
    std::size_t at = 0;
    for (; removes_spaces_ && at < from.size(); at += next(from, at).size)
      if (next(from, at).text != " ") break;
    if (at < from.size()) write(from, at, to);
    text = to.take();
  }

 private:
  // What the next bytes become.
  Charsmap::Match next(std::string_view text, std::size_t at) const {
    const std::string_view rest = text.substr(at);
    if (const std::size_t fixed = user_defined_.longest(rest).size; fixed > 0)
      return {fixed, rest.substr(0, fixed)};
    if (const auto mapped = charsmap_.longest(rest)) return *mapped;
    const Character character = character_at(text, at);
    if (character.code < 0) return {1, kReplacement};
    return {character.size, rest.substr(0, character.size)};
  }

  void write(std::string_view from, std::size_t at, Rewrite& to) const {
    if (!suffix_ && dummy_prefix_) to.put(space_, {at, at + next(from, at).size});
    bool after_space = removes_spaces_;
    while (at < from.size()) {
      const Charsmap::Match match = next(from, at);
      std::string_view put = match.text;
      while (after_space && put.starts_with(' ')) put.remove_prefix(1);
      if (!put.empty()) {
        put_marked(put, {at, at + match.size}, to);
        after_space = put.ends_with(' ');
      }
      at += match.size;
      after_space &= removes_spaces_;
    }
    while (removes_spaces_ && to.text().ends_with(space_)) to.cut_to(to.size() - space_.size());
    if (suffix_ && dummy_prefix_) to.put(space_, {from.size(), from.size()});
  }

  void put_marked(std::string_view put, Range source, Rewrite& to) const {
    for (std::size_t at = 0; at < put.size();) {
      const std::size_t space = std::min(put.find(' ', at), put.size());
      to.put(put.substr(at, space - at), source);
      if (space < put.size()) to.put(space_, source);
      at = space + 1;
    }
  }

  Charsmap charsmap_;
  Trie user_defined_;
  bool dummy_prefix_, suffix_, removes_spaces_;
  std::string_view space_;
};

std::unique_ptr<Model> model_of(const ModelFile& file, std::int32_t unknown,
                                std::vector<std::int32_t> byte_ids) {
  if (file.type == 2) {
    std::vector<MergedPiece> pieces;
    for (const Piece& piece : file.pieces)
      pieces.push_back(
          {.text = piece.text,
           .score = piece.score,
           .matched = piece.type == kNormal || piece.type == kUserDefined || piece.type == kUnused,
           .user_defined = piece.type == kUserDefined,
           .unused = piece.type == kUnused});
    return std::make_unique<PieceMerges>(std::move(pieces), unknown, std::move(byte_ids));
  }
  UnigramRules rules{
      .pieces = {}, .unknown = unknown, .byte_ids = std::move(byte_ids), .single_precision = true};
  for (const Piece& piece : file.pieces)
    rules.pieces.push_back({.text = piece.text,
                            .score = piece.score,
                            .matched = piece.type == kNormal || piece.type == kUserDefined,
                            .user_defined = piece.type == kUserDefined,
                            .scores = piece.type == kNormal});
  return std::make_unique<Unigram>(std::move(rules));
}

// Spaces for their marks; a space at the beginning is the one that the normalizer put there.
Decoder spaces_of(bool strips, bool strips_all) {
  return [strips, strips_all](std::vector<std::string>& tokens) {
    bool begins = strips;
    for (std::string& token : tokens) {
      std::string_view rest = token;
      if (byte_of_token(token)) {
        begins = false;
        continue;
      }
      const bool stripped = begins && rest.starts_with(kSpaceMark);
      if (stripped) rest.remove_prefix(kSpaceMark.size());
      std::string text;
      for (std::size_t at = 0; at < rest.size();) {
        const bool mark = rest.substr(at).starts_with(kSpaceMark);
        text += mark ? ' ' : rest[at];
        at += mark ? kSpaceMark.size() : 1;
      }
      begins &= text.empty() && (strips_all || !stripped);
      token = std::move(text);
    }
  };
}

std::optional<std::int32_t> control_piece(const ModelFile& file, const std::string& text) {
  const auto found = std::ranges::find_if(file.pieces, [&](const Piece& piece) {
    return piece.type == kControl && piece.text == text;
  });
  if (found == file.pieces.end()) return std::nullopt;
  return static_cast<std::int32_t>(found - file.pieces.begin());
}

}  // namespace

bool is_sentencepiece(std::string_view bytes) {
  const std::size_t first = bytes.find_first_not_of(" \t\r\n");
  const bool json = first != bytes.npos && (bytes[first] == '{' || bytes[first] == '[');
  return bytes.starts_with('\n') && !json;
}

SentencePieceModel read_sentencepiece(std::string_view bytes, const std::string& what) {
  const ModelFile file = read_file_fields(bytes, what);
  Codec::Parts parts{.kind = file.type == 2 ? "bpe" : "unigram"};
  std::int32_t unknown = 0;
  std::vector<std::int32_t> byte_ids(file.byte_fallback ? 256 : 0, -1);
  for (std::int32_t id = 0; const Piece& piece : file.pieces) {
    const bool silent = piece.type == kControl;
    if (piece.type == kUnknown) unknown = id;
    if (piece.type == kByte) {
      const std::optional<char> byte = byte_of_token(piece.text);
      if (!byte)
        fail(ErrorKind::kData, "{}: piece {}: {} is no byte such as <0x0A>", what, id,
             formats::shown(piece.text));
      byte_ids[static_cast<unsigned char>(*byte)] = id;
    }
    if (silent || piece.type == kUserDefined)
      parts.findable.push_back({.content = piece.text, .id = id, .special = silent});
    parts.tokens.place(id,
                       silent                   ? ""
                       : piece.type == kUnknown ? file.unknown_text
                                                : piece.text,
                       what);
    ++id;
  }
  const auto normalizer = std::make_shared<const SpaceNormalizer>(file, what);
  parts.normalizers.emplace_back([normalizer](Aligned& text) { normalizer->apply(text); });
  parts.decoders.push_back(
      spaces_of(file.dummy_prefix || file.removes_spaces, file.removes_spaces));
  parts.decoders.emplace_back([](std::vector<std::string>& tokens) { join_bytes(tokens, true); });
  parts.rules = fmt::format("sentencepiece {}{}{}{} {}\n", file.dummy_prefix, file.removes_spaces,
                            file.marks_spaces, file.space_as_suffix, file.charsmap);
  parts.model = model_of(file, unknown, std::move(byte_ids));
  return {Codec(std::move(parts)), control_piece(file, file.begin), control_piece(file, file.end)};
}

}  // namespace trireme::text
