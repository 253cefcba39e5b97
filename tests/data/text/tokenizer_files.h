// Small tokenizer files of every kind, written by hand.
#pragma once

#include <fmt/format.h>

#include <bit>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/base/json.h"

namespace trireme::text {

// A tokenizer.json around a model.
inline Json tokenizer_file(Json model, Json normalizer = nullptr, Json pre_tokenizer = nullptr,
                           Json decoder = nullptr) {
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", Json::array()},
          {"normalizer", std::move(normalizer)},
          {"pre_tokenizer", std::move(pre_tokenizer)},
          {"post_processor", nullptr},
          {"decoder", std::move(decoder)},
          {"model", std::move(model)}};
}

// The model that knows only whole words: "<unk>" is 0.
inline Json word_level(const std::vector<std::string>& words) {
  Json vocab = {{"<unk>", 0}};
  for (const std::string& word : words) vocab[word] = vocab.size();
  return {{"type", "WordLevel"}, {"vocab", vocab}, {"unk_token", "<unk>"}};
}

inline Json added(std::int32_t id, const std::string& content, bool normalized = false) {
  return {{"id", id},        {"content", content},       {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", normalized}, {"special", true}};
}

// BPE over "a", "b" and the mark of spaces; bytes have the ids from 10.
inline Json character_bpe(bool byte_fallback, bool fuse) {
  const std::string mark = "\xE2\x96\x81";
  Json vocab = {{"<unk>", 0}, {"a", 1}, {"b", 2}, {"ab", 3}, {mark, 4}, {mark + "a", 5}};
  if (byte_fallback)
    for (int byte = 0; byte < 256; ++byte) vocab[fmt::format("<0x{:02X}>", byte)] = 10 + byte;
  return {{"type", "BPE"},    {"unk_token", "<unk>"},
          {"fuse_unk", fuse}, {"byte_fallback", byte_fallback},
          {"vocab", vocab},   {"merges", {"a b", mark + " a"}}};
}

// Messages of Protocol Buffers.
inline std::string proto_number(int field, unsigned value) {
  std::string out;
  for (unsigned rest : {static_cast<unsigned>(field) << 3, value}) {
    for (; rest >= 0x80; rest >>= 7) out += static_cast<char>(0x80 | (rest & 0x7F));
    out += static_cast<char>(rest);
  }
  return out;
}

inline std::string proto_bytes(int field, std::string_view bytes) {
  std::string out = proto_number(field, static_cast<unsigned>(bytes.size()));
  const std::size_t key = field < 16 ? 1 : 2;
  std::string head = proto_number(field, 0).substr(0, key);
  head[0] = static_cast<char>(head[0] | 2);
  return head + out.substr(key) + std::string(bytes);
}

inline std::string proto_piece(std::string_view text, float score, unsigned type) {
  const auto bits = std::bit_cast<std::uint32_t>(score);
  std::string out = proto_bytes(1, text) + '\x15';
  for (int shift = 0; shift < 32; shift += 8) out += static_cast<char>(bits >> shift);
  return proto_bytes(1, out + proto_number(3, type));
}

struct PieceOptions {
  unsigned model_type = 1;  // unigram 1, BPE 2
  bool byte_fallback = false;
  std::string normalizer{};  // fields of NormalizerSpec
};

// A SentencePiece model: <unk>, <s>, </s>, then `pieces`, then tokens of bytes if they are asked for.
inline std::string piece_model(const std::string& pieces, const PieceOptions& options) {
  constexpr unsigned kUnknown = 2, kControl = 3, kByte = 6;
  std::string out = proto_piece("<unk>", 0, kUnknown) + proto_piece("<s>", 0, kControl) +
                    proto_piece("</s>", 0, kControl) + pieces;
  constexpr char kHex[] = "0123456789ABCDEF";
  for (int byte = 0; options.byte_fallback && byte < 256; ++byte)
    out += proto_piece(std::string("<0x") + kHex[byte / 16] + kHex[byte % 16] + ">", 0, kByte);
  const std::string trainer =
      proto_number(3, options.model_type) + proto_number(35, options.byte_fallback ? 1 : 0);
  return out + proto_bytes(2, trainer) + proto_bytes(3, options.normalizer);
}

}  // namespace trireme::text
