// Codecs that send some elements of a block: topk and randk.
#pragma once

#include <cstdint>

#include "trireme/comm/codec/codec.h"

namespace trireme::codec {

// Bytes of a block.
std::int64_t sparse_bytes(const Codec& codec, std::int64_t block);
// One block, number `number` of its unit.
void encode_sparse(const Codec& codec, std::int64_t block, std::int64_t number, const Draws& draws,
                   const float* values, std::uint8_t* out);
void decode_sparse(const Codec& codec, std::int64_t block, std::int64_t number, const Draws& draws,
                   const std::uint8_t* in, float* values);

}  // namespace trireme::codec
