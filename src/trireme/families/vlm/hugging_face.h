// Files of vision-language models: what LLaVA's classes and Qwen3-VL's share.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>

#include "trireme/checkpoint/convert/config_classes.h"
#include "trireme/checkpoint/convert/hugging_face_names.h"

namespace trireme::convert {

// The first of these keys that the file has; -1: none, and its tokenizer says it.
std::int64_t token_id_of(const formats::JsonFields& fields,
                         std::initializer_list<const char*> keys);
// The decoder alone, as a job of its family.
config::Job decoder_of(const config::Job& job);
// Sets the decoder that a config.json inside the file describes. Throws Error{kData} naming `where` for a decoder that
// family vlm does not have, of the names in `known`.
void read_decoder(const Json& decoder, const std::string& where, const char* known,
                  config::Job& job);

HuggingFaceClass qwen3_vl_class();
Names qwen3_vl_names();

}  // namespace trireme::convert
