#include "trireme/data/chat/recognise.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "trireme/base/error.h"
#include "trireme/data/chat/template.h"
#include "trireme/formats/json_fields.h"

namespace trireme::chat {
namespace {

// Parts of a Jinja source that a template has, and a part that it does not have.
struct Marks {
  std::string_view name;
  std::array<std::string_view, 2> has;
  bool plain = false;  // has no default for the text of the system
};

// The first that fits is the template.
constexpr Marks kMarks[] = {
    {"harmony", {"<|channel|>", "<|start|>"}},
    {"llava", {"ASSISTANT:", "<image>"}},
    {"llava_mistral", {"[INST]", "<image>"}},
    {"qwen3_vl", {"<|vision_start|>", "<|im_start|>"}, true},
    {"phi4", {"<|im_sep|>", "<|im_start|>"}},
    {"mistral_v7", {"[SYSTEM_PROMPT] ", "[INST] "}},
    {"mistral_v7_tekken", {"[SYSTEM_PROMPT]", "[INST]"}},
    {"mistral_v1", {" [/INST]", "[INST] "}},
    {"mistral_v3", {"[/INST]", "[INST] "}},
    {"mistral_v3_tekken", {"[/INST]", "[INST]"}},
    {"gemma2", {"<start_of_turn>", "System role not supported"}},
    {"gemma3", {"<start_of_turn>", "first_user_prefix"}},
    {"llama3.2", {"<|start_header_id|>", "strftime_now"}},
    {"llama3.1", {"<|start_header_id|>", "Cutting Knowledge Date"}},
    {"llama3", {"<|start_header_id|>", "<|eot_id|>"}, true},
    {"phi3.5", {"<|user|>", "message['role'] == 'system' and message['content']"}},
    {"phi3", {"<|user|>", "<|end|>"}},
    {"phi4_mini", {"<|assistant|>", "<|end|>"}},
    {"qwen2.5", {"<|im_start|>", "You are Qwen, created by Alibaba Cloud. You are a helpful"}},
    {"qwen3", {"<|im_start|>", "enable_thinking"}, true},
    {"qwen3_instruct_2507", {"<|im_start|>", "<tool_call>"}, true},
    {"chatml", {"<|im_start|>", "<|im_end|>"}, true},
};

// Such as "You are a helpful assistant", but not the first words of a list of tools.
bool has_default_system(std::string_view jinja) {
  constexpr std::string_view kDefault = "You are", kTools = "You are provided with function";
  for (auto at = jinja.find(kDefault); at != jinja.npos; at = jinja.find(kDefault, at + 1))
    if (!jinja.substr(at).starts_with(kTools)) return true;
  return false;
}

bool fits(const Marks& marks, std::string_view jinja) {
  const auto inside = [&](std::string_view part) { return jinja.find(part) != jinja.npos; };
  return std::ranges::all_of(marks.has, inside) && !(marks.plain && has_default_system(jinja));
}

// Of tokenizer_config.json or chat_template.json: one template, or several with names of which one is the default.
std::optional<std::string> configured(const Path& file) {
  const Json parsed = parse_json(read_file(file), file.string());
  const formats::JsonFields fields(parsed, file.string());
  if (!fields.has("chat_template")) return std::nullopt;
  if (!fields.any("chat_template").is_array()) return fields.string("chat_template");
  const Json& all = fields.array("chat_template");
  for (std::size_t i = 0; i < all.size(); ++i) {
    const formats::JsonFields one(all[i], fmt::format("{}: chat_template.{}", file.string(), i));
    if (one.string("name") == "default") return one.string("template");
  }
  fail(ErrorKind::kData, "{}: chat_template has {} templates; needs one with name \"default\"",
       file.string(), all.size());
}

}  // namespace

std::string_view recognised(std::string_view jinja) {
  const auto* const found =
      std::ranges::find_if(kMarks, [&](const Marks& marks) { return fits(marks, jinja); });
  return found == std::end(kMarks) ? std::string_view() : found->name;
}

std::string_view template_of_model(const Path& vocabulary, std::string_view key) {
  namespace fs = std::filesystem;
  std::error_code cause;
  const Path directory =
      fs::is_directory(vocabulary, cause) ? vocabulary : vocabulary.parent_path();
  const Path jinja = directory / "chat_template.jinja", seeing = directory / "chat_template.json";
  const Path config = fs::exists(seeing, cause) ? seeing : directory / "tokenizer_config.json";
  const bool own = fs::exists(jinja, cause);
  std::optional<std::string> source;
  if (own)
    source = read_file(jinja);
  else if (fs::exists(config, cause))
    source = configured(config);
  if (!source)
    fail(ErrorKind::kUsage,
         "{}=auto: {} has no chat_template.jinja, and no chat_template.json or "
         "tokenizer_config.json "
         "with a chat_template. Name one of {}",
         key, directory.empty() ? "this tokenizer" : directory.string(), template_names());
  const std::string_view name = recognised(*source);
  if (name.empty())
    fail(ErrorKind::kUsage,
         "{}=auto: {} is not one that is built in. Name one of {} if the model was trained with it",
         key, own ? jinja.string() : config.string() + ": chat_template", template_names());
  return name;
}

}  // namespace trireme::chat
