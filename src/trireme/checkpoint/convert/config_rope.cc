// Rotary positions, as transformers 4 and 5 have them in a config.json.
#include <algorithm>
#include <cmath>

#include "trireme/base/error.h"
#include "trireme/checkpoint/convert/config_classes.h"
#include "trireme/config/rope.h"
#include "trireme/formats/shown.h"

namespace trireme::convert {

using config::Model;
using config::RopeScaling;
using formats::JsonFields;

namespace {

using RopeKind = RopeScaling::Kind;

constexpr const char* kOriginal = "original_max_position_embeddings";
constexpr double kLongRopeOriginal = 4096;  // of the class

// Of an object that says it; M-RoPE's is of the model that sees. `listed`: of a class whose one kind has lists.
RopeKind rope_kind(const JsonFields& rope, bool listed) {
  const char* key = rope.has("rope_type") ? "rope_type" : "type";
  const std::string type = says(rope, key) ? rope.string(key) : "default";
  if (type == "default" || type == "mrope") return RopeKind::kNone;
  if (listed) {
    for (const char* longer : {"longrope", "su", "yarn"})
      if (type == longer) return RopeKind::kLongRope;
    fail(ErrorKind::kData, "{}: {} is {}; default and longrope can be read", rope.where(), key,
         formats::shown(type));
  }
  for (const RopeKind kind :
       {RopeKind::kLinear, RopeKind::kDynamic, RopeKind::kLlama3, RopeKind::kYarn})
    if (type == config::name(kind)) return kind;
  fail(ErrorKind::kData, "{}: {} is {}; default, linear, dynamic, llama3 and yarn can be read",
       rope.where(), key, formats::shown(type));
}

// YaRN's factor of cosines and sines by the two numbers of DeepSeek's files.
double by_mscale(double mscale, double factor) { return 0.1 * mscale * std::log(factor) + 1; }

// Factors of each frequency. The length that they are for is that of the file.
RopeScaling long_rope(const JsonFields& rope, const JsonFields& fields, const Model& model) {
  RopeScaling scaling{.kind = RopeKind::kLongRope};
  for (const config::RopeList& list : config::rope_lists(scaling.kind)) {
    const std::string key(list.published);
    for (const Json& one : rope.array(key.c_str())) {
      if (!one.is_number())
        fail(ErrorKind::kData, "{}: {} has {}; needs numbers", rope.where(), key,
             formats::shown_json(one));
      (scaling.*list.values).push_back(one.get<double>());
    }
  }
  scaling.original = number_or(rope, kOriginal, number_or(fields, kOriginal, kLongRopeOriginal));
  scaling.factor = std::max(1.0, static_cast<double>(model.seq_len) / scaling.original);
  if (says(rope, "factor") && rope.number("factor") != scaling.factor)
    fail(
        ErrorKind::kData,
        "{}: factor is {}, and max_position_embeddings={} is {} times {}={}; needs that factor, or "
        "none",
        rope.where(), formats::shown_json(rope.any("factor")), model.seq_len, scaling.factor,
        kOriginal, scaling.original);
  scaling.attention = says(rope, "attention_factor") ? rope.number("attention_factor") : 0;
  return scaling;
}

RopeScaling scaling_of(const JsonFields& rope, const Model& model, RopeKind kind) {
  RopeScaling scaling{.kind = kind};
  for (const config::RopeTerm& term : config::rope_terms(scaling.kind)) {
    const std::string key(term.published);
    double& value = scaling.*term.value;
    if (says(rope, key.c_str()))
      value =
          rope.any(key.c_str()).is_boolean() ? rope.boolean(key.c_str()) : rope.number(key.c_str());
    else if (term.value == &RopeScaling::original)
      value = static_cast<double>(model.seq_len);
    else if (term.needed && scaling.kind != RopeKind::kYarn)
      rope.number(key.c_str());  // is refused
  }
  if (scaling.kind == RopeKind::kYarn && scaling.factor == 0)
    scaling.factor = std::max(1.0, static_cast<double>(model.seq_len) / scaling.original);
  if (scaling.kind == RopeKind::kYarn && scaling.attention == 0 && says(rope, "mscale") &&
      says(rope, "mscale_all_dim"))
    scaling.attention = by_mscale(rope.number("mscale"), scaling.factor) /
                        by_mscale(rope.number("mscale_all_dim"), scaling.factor);
  return scaling;
}

// As a job writes it. Throws Error{kData} for numbers that a job would refuse.
std::string checked_text(const RopeScaling& scaling, const JsonFields& rope) {
  const std::string text = config::print(scaling);
  try {
    config::parse_rope_scaling(text);
  } catch (const Error& error) {
    fail(ErrorKind::kData, "{}: read as {}", rope.where(), error.what());
  }
  return text;
}

}  // namespace

namespace {

constexpr const char *kFull = "full_attention", *kSliding = "sliding_attention";

void read_fraction(const JsonFields& fields, const RopeKeys& own) {
  if (own.rotary_fraction == nullptr) return need(fields, "partial_rotary_factor", 1.0);
  if (says(fields, "partial_rotary_factor"))
    *own.rotary_fraction = fields.number("partial_rotary_factor");
}

void read_own_rope(const JsonFields& rope, const JsonFields& fields, Model& model,
                   const RopeKeys& own) {
  read_fraction(rope, own);
  model.rope_theta = number_or(rope, "rope_theta", model.rope_theta);
  const RopeKind kind = rope_kind(rope, own.rotary_fraction != nullptr);
  model.rope_scaling = checked_text(
      kind == RopeKind::kLongRope ? long_rope(rope, fields, model) : scaling_of(rope, model, kind),
      rope);
}

}  // namespace

void read_rope(const JsonFields& fields, Model& model, const RopeKeys& own) {
  read_fraction(fields, own);
  model.rope_theta = number_or(fields, "rope_theta", model.rope_theta);
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (!says(fields, key)) continue;
    const std::string where = fmt::format("{}: {}", fields.where(), key);
    const JsonFields rope(fields.object(key), where);
    if (own.sliding_theta == nullptr)
      for (const char* kind : {kFull, kSliding}) need(rope, kind, nullptr);
    if (!says(rope, kFull) && !says(rope, kSliding)) {
      read_own_rope(rope, fields, model, own);
      continue;
    }
    if (says(rope, kFull))
      read_own_rope(JsonFields(rope.object(kFull), fmt::format("{}: {}", where, kFull)), fields,
                    model, own);
    if (!says(rope, kSliding)) continue;
    const JsonFields sliding(rope.object(kSliding), fmt::format("{}: {}", where, kSliding));
    need(sliding, "rope_type", "default");
    *own.sliding_theta = number_or(sliding, "rope_theta", *own.sliding_theta);
  }
}

namespace {

// As files of Phi-3 have it, with their key of the kind.
void write_long_rope(const RopeScaling& scaling, Json& json) {
  Json rope = {{"type", config::name(scaling.kind)}};
  for (const config::RopeList& list : config::rope_lists(scaling.kind))
    rope[std::string(list.published)] = scaling.*list.values;
  if (scaling.attention > 0) rope["attention_factor"] = scaling.attention;
  json["rope_scaling"] = rope;
  json[kOriginal] = static_cast<std::int64_t>(scaling.original);
  json["max_position_embeddings"] = std::llround(scaling.factor * scaling.original);
}

}  // namespace

void write_rope(const Model& model, Json& json) {
  json["rope_theta"] = model.rope_theta;
  const RopeScaling scaling = config::parse_rope_scaling(model.rope_scaling);
  if (scaling.kind == RopeKind::kNone) return;
  if (scaling.kind == RopeKind::kLongRope) return write_long_rope(scaling, json);
  Json rope = {{"rope_type", config::name(scaling.kind)}};
  for (const config::RopeTerm& term : config::rope_terms(scaling.kind)) {
    const double value = scaling.*term.value;
    if (!term.needed && value == RopeScaling{}.*term.value && scaling.kind == RopeKind::kYarn)
      continue;
    const std::string key(term.published);
    if (term.value == &RopeScaling::original)
      rope[key] = static_cast<std::int64_t>(value);
    else if (term.value == &RopeScaling::truncate)
      rope[key] = value != 0;
    else
      rope[key] = value;
  }
  json["rope_scaling"] = rope;
  // Where frequencies follow the length it is that of pretraining.
  if (scaling.kind == RopeKind::kDynamic)
    json["max_position_embeddings"] = static_cast<std::int64_t>(scaling.original);
}

}  // namespace trireme::convert
