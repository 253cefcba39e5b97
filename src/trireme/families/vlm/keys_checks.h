// Vision-language models: what sizes, data and layout must have.
#pragma once

#include <cstdint>
#include <vector>

#include "trireme/config/job.h"
#include "trireme/config/rules/rule.h"

namespace trireme::config {

// Token ids after the 256 bytes: place of an image's token, and end of an answer.
inline constexpr std::int64_t kImageToken = 256;
inline constexpr std::int64_t kEndToken = 257;
inline constexpr std::int64_t kVlmVocab = 258;

std::vector<Rule> vlm_rules();
// Gives a job that was resolved before there was vlm.tokens the ids that it had.
void spell_tokens(Job& job);
// Frequencies of vlm.mrope.
Rule mrope_rule();

// Blocks of the tower that run, of a resolved job.
std::int64_t blocks_read(const Job& job);
// Whether the tower's norm follows them; a merger has a norm of its own.
bool reads_last(const Job& job);
// Whether there is a token for each feature, or each 2 x 2 of them, so that those of padding are left out.
bool keeps_grid(const Projector& projector);
// Whether an image's rows of tokens end with one of their own; not those of a merger, nor where blocks attend to images.
bool ends_rows(const Job& job);
// Whether gated blocks of cross-attention see images, and whether there is one before this block of the decoder, from
// 0.
bool crosses(const Job& job);
bool crosses_before(const Job& job, std::int64_t block);
// Width of the projector's result: the decoder's. Queries to which blocks attend keep their own width.
std::int64_t projected_width(const Job& job);
// Blocks of the tower that vlm.deepstack names, from 0. Throws Error{kUsage} for a malformed list, and for blocks that
// do not run.
std::vector<std::int64_t> deepstack_layers(const Job& job);
// Tokens a side of a tile, or of a clip's frame, with a projector that keeps the grid.
std::int64_t tile_side(const Job& job);
// Tokens that a tile, or a clip, becomes.
std::int64_t tile_tokens(const Job& job);

}  // namespace trireme::config
