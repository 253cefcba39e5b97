#include "trireme/data/text/tokenizer_json.h"

#include <nlohmann/json.hpp>

#include "trireme/data/text/tokenizer/byte_level.h"

namespace trireme::text {
namespace {

Json added_token_json(std::int64_t id, const std::string& content) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", true}};
}

}  // namespace

Json byte_level_pieces() {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", false},
          {"trim_offsets", true},
          {"use_regex", true}};
}

std::string print_tokenizer_json(const ByteLevelBpe& bpe) {
  // Appended unseen: an ordered object would compare every key with all before it.
  Json::object_t vocab;
  std::int64_t id = 0;
  for (const std::string& token : bpe.tokens)
    vocab.Json::object_t::Container::emplace_back(byte_level_spelling(token), id++);
  Json merges = Json::array(), added = Json::array();
  for (const auto& [left, right] : bpe.merges)
    merges.push_back(byte_level_spelling(bpe.tokens[left]) + " " +
                     byte_level_spelling(bpe.tokens[right]));
  for (const std::string& content : bpe.special) added.push_back(added_token_json(id++, content));
  const Json json{{"version", "1.0"},
                  {"truncation", nullptr},
                  {"padding", nullptr},
                  {"added_tokens", std::move(added)},
                  {"normalizer", nullptr},
                  {"pre_tokenizer", byte_level_pieces()},
                  {"post_processor", nullptr},
                  {"decoder", byte_level_pieces()},
                  {"model",
                   {{"type", "BPE"},
                    {"dropout", nullptr},
                    {"unk_token", nullptr},
                    {"continuing_subword_prefix", nullptr},
                    {"end_of_word_suffix", nullptr},
                    {"fuse_unk", false},
                    {"byte_fallback", false},
                    {"vocab", std::move(vocab)},
                    {"merges", std::move(merges)}}}};
  return json.dump(1) + "\n";
}

std::string bytes_tokenizer_json() {
  ByteLevelBpe bytes;
  for (int byte = 0; byte < 256; ++byte) bytes.tokens.emplace_back(1, static_cast<char>(byte));
  return print_tokenizer_json(bytes);
}

}  // namespace trireme::text
