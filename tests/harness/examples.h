// Small programs of every shape that plans must carry, without tensors: for tests, goldens and docs.
#pragma once

#include "trireme/plan/program.h"

namespace trireme::harness {

// embed, `blocks` blocks, a loss with a head of its own.
plan::Program chain_example(int blocks = 2);

// As chain_example, on one of several tp and cp ranks with sequence parallelism: blocks exchange activations
// and keys, and a part of the gradients of their norms is elsewhere.
plan::Program spread_example(int blocks = 2);

// As chain_example, but the loss uses the embedding's unit again: with two stages, tied weights live on
// both ends of the pipeline, and an embedding that looks rows up.
plan::Program tied_example(int stages = 1, int blocks = 2);

// A vision-language model (LLaVA's shape, Liu et al. 2023): frozen image encoder, trainable projector,
// text embedding as a side input, merge, language blocks. No backward before the projector.
plan::Program vision_language_example(int stages = 1);

// Joint embedding (I-JEPA's shape, Assran et al. 2023): two student passes share units, a teacher
// follows by moving average and has no gradient, a predictor meets it in the loss.
plan::Program jepa_example();

// Two towers whose loss is joint, of all micro-batches, and a head on the first with a loss of each (CLIP's shape,
// Radford et al. 2021); with two stages the first tower's features cross the pipeline.
plan::Program two_towers_example(int stages = 1);

// Encoder and decoder with a skip from every encoder level (U-Net's shape, Ronneberger et al. 2015);
// with two stages the skips cross the pipeline.
plan::Program encoder_decoder_example(int stages = 1);

}  // namespace trireme::harness
