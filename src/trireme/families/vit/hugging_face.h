// Keys of config.json that encoders share, and CLIP's vision tower, which several families have.
#pragma once

#include "trireme/checkpoint/convert/config_classes.h"

namespace trireme::convert {

// Activation of a tower, and how it is written. Throws Error{kData} for one that is not known.
config::Activation activation_of(const formats::JsonFields& fields, const char* otherwise);
const char* name_of(config::Activation activation);
// Requires known images and clips, and towers without dropped parts.
void need_plain_tower(const formats::JsonFields& fields, const char* channels);
// Images, of this key, are whole patches, and heads as wide as each other.
void need_whole_patches(const formats::JsonFields& fields, const char* image,
                        const config::Vision& vision);
// By labels or their number.
std::int64_t classes_of(const formats::JsonFields& fields);
// Sets what no class of images without tiles has another value of.
void images_by_class_token(config::Job& job);
// A CLIP tower alone.
void read_clip_vision(const formats::JsonFields& fields, config::Job& job);
void write_clip_vision(const config::Job& job, Json& json);
void as_clip_vision(config::Job& job);
// A SigLIP tower alone, whose output is that before its head: without a class token, with biases everywhere.
void read_siglip_vision(const formats::JsonFields& fields, config::Job& job);
void write_siglip_vision(const config::Job& job, Json& json);
void as_siglip_vision(config::Job& job);

}  // namespace trireme::convert
