#include "trireme/checkpoint/convert/hugging_face_names.h"

#include <optional>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/base/patterns.h"
#include "trireme/checkpoint/convert/config_classes.h"
#include "trireme/checkpoint/convert/families.h"
#include "trireme/config/head_width.h"
#include "trireme/config/rope.h"
#include "trireme/families/vlm/keys_checks.h"

namespace trireme::convert {
namespace {

// CLIP's vision tower or SigLIP's, which several classes have, after the prefix of its names. "pre_layrnorm" is their
// spelling.
constexpr std::array kClipTowerRules = {
    Rule{"patch_embed.proj.weight", "embeddings.patch_embedding.weight", Form::kPatches},
    Rule{"patch_embed.proj.bias", "embeddings.patch_embedding.bias"},
    Rule{"cls_token", "embeddings.class_embedding", Form::kWithoutOne},
    Rule{"pos_embed", "embeddings.position_embedding.weight"},
    Rule{"norm_pre.*", "pre_layrnorm.*"},
    Rule{"blocks.*.norm1.*", "encoder.layers.*.layer_norm1.*"},
    Rule{"blocks.*.attn.qkv.*", "encoder.layers.*.self_attn.{q,k,v}_proj.*"},
    Rule{"blocks.*.attn.proj.*", "encoder.layers.*.self_attn.out_proj.*"},
    Rule{"blocks.*.norm2.*", "encoder.layers.*.layer_norm2.*"},
    Rule{"blocks.*.mlp.*.*", "encoder.layers.*.mlp.*.*"},
    Rule{"norm.*", "post_layernorm.*"},
    Rule{"attn_pool.probe", "head.probe", Form::kWithOne},
    Rule{"attn_pool.q.weight", "head.attention.in_proj_weight", Form::kQueryRows},
    Rule{"attn_pool.q.bias", "head.attention.in_proj_bias", Form::kQueryRows},
    Rule{"attn_pool.kv.weight", "head.attention.in_proj_weight", Form::kKeyValueRows},
    Rule{"attn_pool.kv.bias", "head.attention.in_proj_bias", Form::kKeyValueRows},
    Rule{"attn_pool.proj.*", "head.attention.out_proj.*"},
    Rule{"attn_pool.norm.*", "head.layernorm.*"},
    Rule{"attn_pool.mlp.*.*", "head.mlp.*.*"},
};

std::vector<std::string_view> cut_at(std::string_view text, char separator) {
  std::vector<std::string_view> pieces;
  for (std::size_t end = 0; end != text.npos; text.remove_prefix(end == text.npos ? 0 : end + 1)) {
    end = text.find(separator);
    pieces.push_back(text.substr(0, end));
  }
  return pieces;
}

// "a{b,c}d" as "abd" and "acd".
std::vector<std::string> spelled_out(std::string_view pattern) {
  const std::size_t open = pattern.find('{'), close = pattern.find('}');
  if (open == pattern.npos) return {std::string(pattern)};
  std::vector<std::string> all;
  for (const std::string_view choice : cut_at(pattern.substr(open + 1, close - open - 1), ','))
    all.push_back(
        fmt::format("{}{}{}", pattern.substr(0, open), choice, pattern.substr(close + 1)));
  return all;
}

// What the stars of a pattern stand for in a name, if it fits.
std::optional<std::vector<std::string>> stars(std::string_view pattern, std::string_view name) {
  std::vector<std::string> found;
  for (const std::string_view segment : cut_at(pattern, '.')) {
    if (segment == "**") {
      found.emplace_back(std::exchange(name, {}));
      break;
    }
    const std::size_t end = name.find('.');
    const std::string_view here = name.substr(0, end);
    if (here.empty() || (segment != "*" && segment != here)) return std::nullopt;
    if (segment == "*") found.emplace_back(here);
    name.remove_prefix(end == name.npos ? name.size() : end + 1);
  }
  if (!name.empty()) return std::nullopt;
  return found;
}

std::string filled(std::string_view pattern, const std::vector<std::string>& stars) {
  std::string text;
  auto next = stars.begin();
  for (const std::string_view segment : cut_at(pattern, '.')) {
    const bool star = segment.starts_with('*');
    text += fmt::format("{}{}", text.empty() ? "" : ".", star ? std::string_view(*next) : segment);
    next += star;
  }
  return text;
}

std::vector<std::int64_t> formed(Form form, std::vector<std::int64_t> shape,
                                 const config::Job& job) {
  const std::int64_t patch = job.vision.patch;
  switch (form) {
    case Form::kSame:
    case Form::kNumbered: break;
    case Form::kTurned: std::swap(shape[0], shape[1]); break;
    case Form::kPatches:
      shape = {shape[0], 3, patch, patch};
      if (job.vision.tubelet > 1) shape.insert(shape.begin() + 2, job.vision.tubelet);
      break;
    case Form::kWithoutOne: shape.erase(shape.begin()); break;
    case Form::kWithOne: shape.insert(shape.begin(), 1); break;
    case Form::kStacked: shape.insert(shape.begin(), written_mask_tokens(job.jepa)); break;
    case Form::kFused: break;  // parts_of_fused
    case Form::kQueries:
    case Form::kKeys:
    case Form::kValues:
    case Form::kQueryRows: shape[0] *= 3; break;
    case Form::kKeyValueRows: shape[0] = shape[0] / 2 * 3; break;
  }
  return shape;
}

// Which of several tensors a name with a number at its end is.
std::int64_t number_of(std::string_view name) {
  return std::stoll(std::string(name.substr(name.rfind('.') + 1)));
}

// Of a fused layer of Llama's the rows before those of a layer of ours, and all.
struct FusedRows {
  std::int64_t before = 0, all = 0;
};
FusedRows fused_rows(std::string_view name, const config::Model& model) {
  const std::int64_t q = config::attended_width(model);
  const std::int64_t kv = config::head_width(model) * model.kv_heads;
  const auto is = [&](std::string_view layer) { return name.find(layer) != name.npos; };
  if (is(".gate_proj.") || is(".up_proj."))
    return {.before = is(".up_proj.") ? model.ffn : 0, .all = 2 * model.ffn};
  return {.before = is(".q_proj.") ? 0 : is(".k_proj.") ? q : q + kv, .all = q + 2 * kv};
}

bool of_heads(Form form) {
  return form == Form::kQueries || form == Form::kKeys || form == Form::kValues;
}

// Rows of heads in a tensor of theirs: where the first begins, how far each is from the last, and how many rows of each
// turn.
struct HeadRows {
  std::int64_t first = 0, step = 0, turned = 0;
};

// Ranges of rows of every head, in the order of our channels.
std::vector<Part> parts_of_heads(const Part& whole, const HeadRows& rows, std::int64_t width,
                                 std::int64_t heads) {
  const std::int64_t elements = whole.count / (heads * width);  // of a row
  const std::int64_t half = rows.turned / 2, still = width / 2 - half;
  std::vector<Part> parts;
  for (std::int64_t head = 0; head < heads; ++head)
    for (const auto& [first, count] :
         {std::pair{std::int64_t{0}, half}, std::pair{rows.turned, still}, std::pair{half, half},
          std::pair{rows.turned + still, still}}) {
      if (count == 0) continue;
      Part part = whole;
      part.offset = (rows.first + head * rows.step + first) * elements;
      part.count = count * elements;
      parts.push_back(std::move(part));
    }
  return parts;
}

// Of NeoX, whose heads have their queries, keys and values side by side.
std::vector<Part> parts_of_neox(const Part& whole, const config::Job& job) {
  const std::int64_t width = config::head_width(job.model);
  const std::int64_t turned = config::rotated_channels(job.model, job.neox.rotary_fraction);
  const std::int64_t third = whole.form == Form::kQueries ? 0 : whole.form == Form::kKeys ? 1 : 2;
  return parts_of_heads(whole,
                        {.first = third * width,
                         .step = 3 * width,
                         .turned = whole.form == Form::kValues ? 0 : turned},
                        width, job.model.heads);
}

// Of Phi-3, where queries and keys whose channels turn in part have those first that do.
std::vector<Part> parts_of_fused(Part part, const model::ParamSpec& param, const config::Job& job) {
  const FusedRows rows = fused_rows(param.name, job.model);
  part.shape[0] = rows.all;
  const std::int64_t width = config::head_width(job.model);
  const std::int64_t turned = config::rotated_channels(job.model, job.llama.rotary_fraction);
  const bool queries = param.name.find(".q_proj.") != std::string::npos;
  if (turned < width && (queries || param.name.find(".k_proj.") != std::string::npos))
    return parts_of_heads(part, {.first = rows.before, .step = width, .turned = turned}, width,
                          queries ? job.model.heads : job.model.kv_heads);
  part.offset = rows.before * (param.numel() / param.shape[0]);
  return {std::move(part)};
}

std::vector<Part> parts_by(const Rule& rule, const std::vector<std::string>& stars,
                           const config::Job& job, const model::ParamSpec& param) {
  const std::vector<std::string> theirs = spelled_out(rule.theirs);
  const auto pieces = static_cast<std::int64_t>(theirs.size());
  std::vector<std::int64_t> shape = formed(rule.form, param.shape, job);
  const std::int64_t count = param.numel() / pieces;
  if (pieces > 1) shape[0] /= pieces;
  const bool stacked = rule.form == Form::kStacked;
  const std::int64_t before = stacked                            ? number_of(param.name) * count
                              : rule.form == Form::kKeyValueRows ? count / 2
                                                                 : 0;
  std::vector<Part> parts;
  for (const std::string& name : theirs)
    parts.push_back({.name = filled(name, stars),
                     .shape = shape,
                     .form = rule.form,
                     .offset = before,
                     .count = count,
                     .copies = stacked ? shape[0] / job.jepa.mask_tokens : 1});
  if (rule.form == Form::kFused) return parts_of_fused(std::move(parts.front()), param, job);
  return of_heads(rule.form) ? parts_of_neox(parts.front(), job) : parts;
}

// By the first that fits.
std::optional<std::vector<Part>> parts_by_rules(std::span<const Rule> rules, std::string_view name,
                                                const config::Job& job,
                                                const model::ParamSpec& param) {
  for (const Rule& rule : rules)
    if (const auto found = stars(rule.ours, name)) return parts_by(rule, *found, job, param);
  return std::nullopt;
}

bool begins_at_zero(const Names& names, const std::string& name) {
  return !names.zeros.empty() && matches(names.zeros, name);
}

}  // namespace

std::vector<const Names*> names_of(const config::Job& job) {
  std::vector<const Names*> all;
  const FamilyFiles* files = family_files(job.model.family);
  if (files == nullptr) return all;
  for (const Names& names : files->names)
    if (names.fits == nullptr || names.fits(job)) all.push_back(&names);
  return all;
}

bool has_place(const Names& names, const model::ParamSpec& param) {
  return (names.left_out.empty() || !param.name.starts_with(names.left_out)) &&
         !begins_at_zero(names, param.name);
}

std::string idle_tensors(const Names& names, const config::Job& job) {
  std::string idle(names.idle);
  if (!names.reads_early) return idle;
  // The tower has further blocks after those that are read, a norm and, if it has no class token, perhaps a head.
  for (std::int64_t layer = config::blocks_read(job); layer < job.vision.layers; ++layer)
    idle += fmt::format(",{}encoder.layers.{}.*", names.tower_there, layer);
  if (job.vision.pooling != config::Pooling::kClass)
    idle += fmt::format(",{}head.*", names.tower_there);
  return fmt::format("{},{}post_layernorm.*", idle, names.tower_there);
}

std::vector<Part> parts_of(const Names& names, const config::Job& job,
                           const model::ParamSpec& param) {
  if (begins_at_zero(names, param.name)) return {};
  const std::string name =
      has_place(names, param)
          ? param.name
          : fmt::format("{}{}", names.stand_ins, param.name.substr(names.left_out.size()));
  std::optional<std::vector<Part>> parts;
  if (!names.tower_there.empty() && name.starts_with(names.tower)) {
    parts = parts_by_rules(kClipTowerRules, std::string_view(name).substr(names.tower.size()), job,
                           param);
    if (parts)
      for (Part& part : *parts) part.name.insert(0, names.tower_there);
  }
  if (!parts) parts = parts_by_rules(names.rules, name, job, param);
  if (!parts) fail(ErrorKind::kInternal, "{} has no name among those of {}", name, names.name);
  return *std::move(parts);
}

}  // namespace trireme::convert
