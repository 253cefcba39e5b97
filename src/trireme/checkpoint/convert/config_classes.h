// What the config.json of a class and a job say of each other: a pair of functions a class, and what they share.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>

#include "trireme/config/job.h"
#include "trireme/formats/json_fields.h"

namespace trireme::convert {

// read_X sets what a config.json says of the model; write_X gives that of a resolved job. Reading throws Error{kData} for
// a feature that no family here has.
void read_gpt2(const formats::JsonFields& fields, config::Job& job);
void write_gpt2(const config::Job& job, Json& json);
void read_llama(const formats::JsonFields& fields, config::Job& job);
void write_llama(const config::Job& job, Json& json);
void read_mistral(const formats::JsonFields& fields, config::Job& job);
void write_mistral(const config::Job& job, Json& json);
void read_qwen2(const formats::JsonFields& fields, config::Job& job);
void write_qwen2(const config::Job& job, Json& json);
void read_qwen3(const formats::JsonFields& fields, config::Job& job);
void write_qwen3(const config::Job& job, Json& json);
void read_smollm3(const formats::JsonFields& fields, config::Job& job);
void write_smollm3(const config::Job& job, Json& json);
void read_vit(const formats::JsonFields& fields, config::Job& job);
void write_vit(const config::Job& job, Json& json);
void read_clip(const formats::JsonFields& fields, config::Job& job);
void write_clip(const config::Job& job, Json& json);
// A CLIP tower alone.
void read_clip_vision(const formats::JsonFields& fields, config::Job& job);
void write_clip_vision(const config::Job& job, Json& json);
// The same, with so many classes behind it.
void read_clip_classes(const formats::JsonFields& fields, config::Job& job);
void write_clip_classes(const config::Job& job, Json& json);
void read_vjepa(const formats::JsonFields& fields, config::Job& job);
void write_vjepa(const config::Job& job, Json& json);
void read_hnet(const formats::JsonFields& fields, config::Job& job);
void write_hnet(const config::Job& job, Json& json);
// Its encoder, with an attentive probe of vision.classes.
void read_vjepa_probe(const formats::JsonFields& fields, config::Job& job);
void write_vjepa_probe(const config::Job& job, Json& json);
void read_llava(const formats::JsonFields& fields, config::Job& job);
void write_llava(const config::Job& job, Json& json);
// Of any resolution.
void read_llava_next(const formats::JsonFields& fields, config::Job& job);
void write_llava_next(const config::Job& job, Json& json);

// What a file says of rotary positions: read after model.seq_len.
void read_rope(const formats::JsonFields& fields, config::Model& model);
void write_rope(const config::Model& model, Json& json);
// Whether a number of first layers, or all, attend to everything before and the others within one window.
bool slides_last(const config::Model& model);

// Mask tokens of a predictor that is written: as many copies of a single one as published predictors have tokens, as what
// reads the files may take any of them.
std::int64_t written_mask_tokens(const config::Jepa& jepa);

inline constexpr std::int64_t kMostSize = std::int64_t{1} << 30;

inline bool says(const formats::JsonFields& fields, const char* key) {
  return fields.has(key) && !fields.any(key).is_null();
}
inline std::int64_t size_or(const formats::JsonFields& fields, const char* key,
                            std::int64_t otherwise) {
  return says(fields, key) ? fields.integer(key, 1, kMostSize) : otherwise;
}
inline double number_or(const formats::JsonFields& fields, const char* key, double otherwise) {
  return fields.has(key) ? fields.number(key) : otherwise;
}
// What changes the function and is not built here, unless it has this value or is absent. Throws Error{kData}.
void need(const formats::JsonFields& fields, const char* key, const Json& value);

// What a class calls the sizes of a section, and what it takes them to be where they are not said; 0: they must be.
template <typename Section>
struct Size {
  const char* key;
  std::int64_t Section::*size;
  std::int64_t otherwise = 0;
};
void read_sizes(const formats::JsonFields& fields, const auto& sizes, auto& section) {
  for (const auto& [key, size, otherwise] : sizes)
    section.*size =
        otherwise == 0 ? fields.integer(key, 1, kMostSize) : size_or(fields, key, otherwise);
}
void write_sizes(Json& json, const auto& sizes, const auto& section) {
  for (const auto& [key, size, otherwise] : sizes) json[key] = section.*size;
}

}  // namespace trireme::convert
