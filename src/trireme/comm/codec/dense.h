// Codecs that send every element, on whole blocks of powers of two, 16 to 256 elements.
#pragma once

#include <cstddef>
#include <cstdint>

#include "trireme/comm/codec/codec.h"

namespace trireme::codec {

// Bytes of a block.
std::int64_t dense_bytes(Kind kind, std::int64_t block);
// `blocks` whole blocks; `real` of the elements of the last one are no padding, and padding is 0.
void encode_dense(const Codec& codec, const Segment& segment, const Draws& draws,
                  const float* values, std::int64_t blocks, std::int64_t real, std::uint8_t* out);
void decode_dense(Kind kind, std::int64_t block, const std::uint8_t* in, std::int64_t blocks,
                  float* values);

}  // namespace trireme::codec
