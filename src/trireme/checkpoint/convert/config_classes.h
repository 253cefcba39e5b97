// Conversion between a class's config.json and a job: what classes have in common.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>

#include "trireme/base/error.h"
#include "trireme/config/job.h"
#include "trireme/formats/json_fields.h"

namespace trireme::convert {

// One class of Hugging Face. Reading sets what a config.json says of the model and throws Error{kData} for a feature that no
// family here has; writing gives the config.json of a resolved job.
struct HuggingFaceClass {
  config::DataSource source;  // of a job that is read
  const char* type;           // model_type
  const char* architecture;   // null: the file says neither this nor model_type
  void (*fix)(config::Job&);  // sets what the class has no other value of
  void (*read)(const formats::JsonFields&, config::Job&);
  void (*write)(const config::Job&, Json&);
  const char* processor = "CLIPImageProcessor";  // of a model that sees
  bool clips = false;                            // it sees clips
};
// Of several classes of a family the first that can say most of the job; null: it has none.
const HuggingFaceClass* class_of(const config::Job& job);

// `fix` of a class that has all that the family has.
inline void no_choice(config::Job&) {}

// Keys of a class beyond model.rope_theta and model.rope_scaling; null ones are refused.
struct RopeKeys {
  double* sliding_theta =
      nullptr;  // of layers with a window: transformers 5 has keys by kind of layer
  double* rotary_fraction = nullptr;  // with it, lists of factors (longrope)
};
// Rotary positions of a file: read after model.seq_len; model.rope_theta is what holds if a file says nothing.
void read_rope(const formats::JsonFields& fields, config::Model& model, const RopeKeys& own = {});
void write_rope(const config::Model& model, Json& json);

// Number of mask tokens in a written predictor. A single trained token is copied as often as published predictors have
// tokens, because readers of the files may take any of them.
std::int64_t written_mask_tokens(const config::Jepa& jepa);

inline constexpr std::int64_t kMostSize = std::int64_t{1} << 30, kMostLayers = 1 << 16;

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
// Refuses a feature that changes the function and is not built here, unless its key has this value or is absent. Throws
// Error{kData}.
void need(const formats::JsonFields& fields, const char* key, const Json& value);

// Calls `make` and returns its result; keys of a job that it refuses are of the file `what`.
auto as_job(const std::string& what, const auto& make) {
  try {
    return make();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUsage) throw;
    fail(ErrorKind::kData, "{}, as a job: {}", what, error.what());
  }
}
// The same job. Throws Error{kData} where a key is out of its range.
config::Job within_ranges(const config::Job& job, const std::string& what);

// A size and its value, by the key of a config.json.
struct KeyedSize {
  const char* key;
  std::int64_t value;
};
// Throws Error{kData} where the first is no multiple of the second.
void need_multiple(const formats::JsonFields& fields, const KeyedSize& size, const KeyedSize& of);

// Names of the sizes of a section in the config.json of a class, and their values where the file has none; 0: the file
// must have it.
template <typename Section>
struct Size {
  const char* key;
  std::int64_t Section::*size;
  std::int64_t otherwise = 0;
  std::int64_t most = kMostSize;
};
void read_sizes(const formats::JsonFields& fields, const auto& sizes, auto& section) {
  for (const auto& [key, size, otherwise, most] : sizes)
    section.*size = otherwise > 0 && !says(fields, key) ? otherwise : fields.integer(key, 1, most);
}
void write_sizes(Json& json, const auto& sizes, const auto& section) {
  for (const auto& one : sizes) json[one.key] = section.*one.size;
}

}  // namespace trireme::convert
