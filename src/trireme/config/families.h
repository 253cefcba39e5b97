// Families of models: one record each, which all layers ask in place of the family's name. A family is a folder of
// src/trireme/families and a line of cmake/families.cmake, from which this list and those of other components are made.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/config/job.h"

namespace trireme::config {

struct Rule;

// A decoder, as section `model` describes it, and what its checks ask.
struct Decoder {
  std::string_view family;  // that is this decoder alone
  bool gated = false;       // feed-forward layers are SwiGLU, with two wide layers
  bool rotary =
      false;  // queries and keys turn; else positions are a table, which fixes the longest sequence
  bool fused_heads = false;  // queries, keys and values are one layer
  bool llama_keys =
      false;  // has key-value heads, heads of any width, windows and scaled rotary positions
};

// How pictures are seen: in the tower's size, as tiles of it, or region by region.
enum class Pictures { kResized, kTiles, kRegions };

// What `trireme predict` chooses among.
enum class Predicts { kNothing, kClasses, kCaptions };

struct FamilyInfo {
  Family family{};               // this and the name are the list's
  std::string_view name{};       // as model.family spells it
  std::string_view about{};      // in the help of model.family, after the name
  std::string_view keys{};       // of `model` and of families' sections, as patterns
  std::string_view also = {};    // more of them
  std::string_view chunks = {};  // of a frozen tower of clips
  // Of its sizes, data and layout (rules/rule.h).
  std::vector<Rule> (*rules)() = nullptr;
  std::optional<Decoder> decoder{};
  bool chain = false;  // the model is that decoder alone: an embedding, equal blocks and a head
  bool reads_tokens = false;
  bool packs_conversations = false;  // several to a row, which do not see each other
  bool has_vocabulary = false;       // bytes with a beginning and an end, in no published file
  bool zigzag =
      false;  // the loader cuts rows into two chunks a cp rank; else blocks cut them in order
  bool sequence_parallel = false;
  bool adapters = false;
  bool fp16_on_cpu = false;  // LibTorch has kernels for all of its layers
  Pictures pictures = Pictures::kResized;
  bool tokenizes_questions = false;  // with data.tokenizer; other questions are bytes
  bool embeds = false;               // has a vision tower whose features are an embedding
  Predicts predicts = Predicts::kNothing;
  // Whether a sample's loss depends on the others of its global batch, and the beginning of a sentence why; null: no.
  bool (*couples_batch)(const Job&) = nullptr;
  std::string_view couples = {};

  bool writes_text() const { return reads_tokens || decoder.has_value(); }
  bool answers_about_pictures() const { return pictures != Pictures::kResized; }
};

// A decoder alone, on text: keys of section `model`, with language_rules.
FamilyInfo language_model(const Decoder& decoder);

// All of them, in the order in which texts name them.
std::span<const FamilyInfo> families();
const FamilyInfo& info(Family family);
inline const FamilyInfo& info(const Job& job) { return info(job.model.family); }

// As model.family spells it.
inline std::string_view name(Family family) { return info(family).name; }
// "gpt, llama and hnet".
std::string names_where(bool (*holds)(const FamilyInfo&));

// The family that is this one's decoder alone: llama for vlm.
Family decoder_alone(Family family);

// Whether the job has a decoder whose queries and keys turn.
inline bool is_rotary(const Job& job) { return info(job).decoder && info(job).decoder->rotary; }

// Whether a family has a use for the key, "section.name". Keys of no family's own are every family's.
bool uses(Family family, std::string_view key);

// An entry of a layer's table, with its family.
template <typename Entry>
Entry entry_of(Family family, Entry entry) {
  entry.family = family;
  return entry;
}

// The entry of a family in a layer's table; null: it has none.
template <typename Entry>
const Entry* find_entry(std::span<const Entry> table, Family family) {
  for (const Entry& entry : table)
    if (entry.family == family) return &entry;
  return nullptr;
}

}  // namespace trireme::config
