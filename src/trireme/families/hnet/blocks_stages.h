// The blocks of an H-Net's stages.
#pragma once

#include <memory>

#include "trireme/families/hnet/keys_stages.h"
#include "trireme/model/blocks/blocks.h"
#include "trireme/model/layers/layer.h"

namespace trireme::blocks {

// Rotates pairs (i, i + frequencies) in the first channels of each head by position * frequency, computed in fp64.
// Shapes: x [rows, heads, head_dim]; positions [rows].
at::Tensor turned(const at::Tensor& x, const at::Tensor& positions,
                  const std::vector<double>& frequencies);

// Layers as model::HnetParams has them: x + mixer(norm(x)), then for letters T and M x + swiglu(norm(x)). x may be fp32 with narrower parameters, and stays
// so. Reads rows and the beginnings of their sequences. Attention (t, T; causal) and Mamba-2 (m, M) do not look beyond
// these. Given the past of a sequence, it reads the sequence in parts.
std::unique_ptr<exec::Block> hnet_block(const config::Model& model, const config::HnetStage& stage,
                                        std::vector<model::Layer> layers, const Ranks& ranks);

}  // namespace trireme::blocks
