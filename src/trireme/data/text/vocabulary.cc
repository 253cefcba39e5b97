#include "trireme/data/text/vocabulary.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "trireme/base/error.h"
#include "trireme/base/git_lfs.h"
#include "trireme/base/json.h"
#include "trireme/data/text/tokenizer/sentencepiece.h"
#include "trireme/formats/checkpoint_files.h"
#include "trireme/formats/json_fields.h"
#include "trireme/formats/shown.h"

namespace trireme::text {
namespace {

namespace fs = std::filesystem;

std::optional<Path> vocabulary_in(const Path& directory) {
  std::error_code cause;
  for (const char* name : {kVocabularyName, kTokenizerJsonName, kSentencePieceName})
    if (fs::is_regular_file(directory / name, cause)) return directory / name;
  return std::nullopt;
}

// Ids of "eos_token_id", a number or a list of them, of the first file that has it.
std::vector<std::int32_t> ends_beside(const Path& vocabulary, std::int32_t vocab_size) {
  std::vector<std::int32_t> ends;
  std::error_code cause;
  for (const char* name : {"generation_config.json", "config.json"}) {
    const Path file = vocabulary.parent_path() / name;
    if (!fs::is_regular_file(file, cause)) continue;
    const Json json = parse_json(read_file(file), file.string());
    const formats::JsonFields fields(json, file.string());
    if (!fields.has("eos_token_id") || fields.any("eos_token_id").is_null()) continue;
    const Json& said = fields.any("eos_token_id");
    for (const Json& id : said.is_array() ? said : Json::array({said})) {
      // Classes write their default, such as 50256, into config.json whatever the vocabulary is.
      if (file.filename() == "config.json" && id.is_number_integer() && id >= vocab_size) continue;
      ends.push_back(static_cast<std::int32_t>(
          formats::json_integer(id, file.string() + ": eos_token_id", 0, vocab_size - 1)));
    }
    if (!ends.empty()) break;
  }
  return ends;
}

// Gemma 3's models of text share a tokenizer with those of images, whose token has the id after the last row of their
// embedding. Returns the file without it.
std::string without_image_token(const std::string& text, const Path& vocabulary) {
  constexpr std::string_view kImage = "<image_soft_token>";
  const Path config = vocabulary.parent_path() / "config.json";
  std::error_code cause;
  if (text.find(kImage) == text.npos || !fs::is_regular_file(config, cause)) return text;
  const Json model = parse_json(read_file(config), config.string());
  Json tokenizer = parse_json(text, vocabulary.string());
  if (!model.is_object() || !model.contains("vocab_size") || !tokenizer.is_object() ||
      !tokenizer.contains("added_tokens") || !tokenizer["added_tokens"].is_array())
    return text;
  Json& added = tokenizer["added_tokens"];
  const auto has_no_row = [&](const Json& token) {
    return token.is_object() && token.contains("id") && token["id"] == model["vocab_size"] &&
           token.contains("content") && token["content"] == kImage;
  };
  const auto found = std::find_if(added.begin(), added.end(), has_no_row);
  if (found == added.end()) return text;
  added.erase(found);
  return tokenizer.dump();
}

}  // namespace

std::optional<Path> find_vocabulary(const Path& path) {
  std::error_code cause;
  if (fs::is_regular_file(path, cause)) return path;
  if (!fs::is_directory(path, cause)) return std::nullopt;
  if (const std::optional<Path> here = vocabulary_in(path)) return here;
  // RUNDIR/checkpoints/step-N, or OUT/step-N of a checkpoint that was rewritten.
  Path above = fs::canonical(path, cause);
  if (cause) return std::nullopt;
  const bool checkpoint = formats::step_of(above.filename().string()).has_value();
  if (checkpoint) above = above.parent_path();
  if (above.filename() == "checkpoints")
    above = above.parent_path();
  else if (!checkpoint)
    return std::nullopt;
  return vocabulary_in(above);
}

Tokenizer read_vocabulary(const Path& path) {
  const std::optional<Path> file = find_vocabulary(path);
  if (!file)
    fail(ErrorKind::kUsage,
         "tokenizer {}: neither bytes, characters, bpe:N nor a path that has a vocabulary; name a "
         "tokenizer.json, a SentencePiece model, a vocabulary.json, or a run, checkpoint, dataset "
         "or "
         "Hugging Face directory with one",
         formats::shown(path.string()));
  const std::string text = read_file(*file), what = file->string();
  refuse_pointer(text, what);
  if (file->extension() == ".model" || is_sentencepiece(text)) {
    const Tokenizer read = Tokenizer::sentencepiece(text, what);
    std::vector<std::int32_t> ends = ends_beside(*file, read.vocab_size());
    return ends.empty() ? read : read.with_ends(std::move(ends));
  }
  const Json json = parse_json(text, what);
  if (json.is_object() && json.contains("format")) return Tokenizer::from_description(text, what);
  const Tokenizer read = Tokenizer::hugging_face(without_image_token(text, *file), what);
  return read.with_ends(ends_beside(*file, read.vocab_size()));
}

std::array<std::int64_t, 2> picture_tokens(const Tokenizer& tokenizer) {
  const std::vector<std::int32_t>& ends = tokenizer.ends();
  const std::int64_t end = ends.empty() ? -1 : ends.front();
  for (const char* name : {"<image>", "<|image_pad|>", "<image_soft_token>", "[IMG]"})
    if (const auto id = tokenizer.find_added_token(name)) return {*id, end};
  return {-1, end};
}

std::optional<std::string> added_text(const Tokenizer& tokenizer, std::int64_t id) {
  if (id < 0 || id >= tokenizer.vocab_size()) return std::nullopt;
  std::string text = tokenizer.decode(std::vector{static_cast<std::int32_t>(id)});
  return tokenizer.find_added_token(text) == id ? std::optional(std::move(text)) : std::nullopt;
}

}  // namespace trireme::text
