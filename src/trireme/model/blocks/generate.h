// Text generation from a bound language model.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "trireme/exec/block.h"
#include "trireme/exec/past.h"

namespace trireme::blocks {

struct Sampling {
  double temperature = 1;  // 0: always the likeliest token
  std::int64_t top_k = 0;  // only the k likeliest; 0: all
  double top_p = 1;        // only the likeliest whose probabilities reach p together
  std::uint64_t seed = 1;  // the n-th token is a function of seed, n and the logits
};

// Draws the index-th token from logits [vocab]. Throws Error{kUsage} for a negative temperature or top_k,
// top_p outside (0, 1], and Error{kNonFinite} for logits that are not finite.
std::int64_t sample(const at::Tensor& logits, const Sampling& sampling, std::int64_t index);

// Logits [vocab], fp32 or fp64, of what follows `tokens`, of which the last `context` are read. The model
// reads tokens and ends in a LanguageHead, its blocks bound to parameters that are there; not collective.
at::Tensor next_logits(const exec::Model& model, const std::vector<std::int64_t>& tokens,
                       std::int64_t context);

// All values of a program with these inputs, in its order; all nodes run except losses and the head. With `pasts`,
// parallel to nodes, the inputs follow those of earlier calls.
std::vector<at::Tensor> values_of(const exec::Model& model, const std::vector<at::Tensor>& inputs,
                                  std::vector<exec::Past>* pasts = nullptr);

// The same as next_logits() of what follows the last token of the first sample of `inputs`, or from their values_of().
// The head reads [samples, tokens, d], or packed rows of one sample.
at::Tensor next_logits(const exec::Model& model, const std::vector<at::Tensor>& inputs);
at::Tensor logits_of(const exec::Model& model, const std::vector<at::Tensor>& values);

// Natural logarithm of the probability of the tokens from `begin` (above 0) on, given those before. The model reads the last
// `context` of all but the last token. Decoders alone. Throws Error{kData} where the tokens from `begin` on alone are
// more, and Error{kNonFinite}.
double log_likelihood(const exec::Model& model, const std::vector<std::int64_t>& tokens,
                      std::size_t begin, std::int64_t context);

// Natural logarithms of the probabilities of the tokens from `begin` (above 0) on, each given those before, by the kernels
// of training: bit for bit those of a step on one rank, in rows of `row` tokens of which the first begins with them. The
// model is a decoder whose head writes losses of tokens (source preferences). Throws Error{kData} for more tokens than
// row + 1, and Error{kNonFinite}.
std::vector<double> token_log_probs(const exec::Model& model,
                                    const std::vector<std::int64_t>& tokens, std::size_t begin,
                                    std::int64_t row);

// A growing text, of which a model of family gpt, llama, neox or hnet reads each token once. Its blocks keep keys and values,
// states and routers' last rows.
class GrowingText {
 public:
  explicit GrowingText(const exec::Model& model) : model_(model), pasts_(model.blocks.size()) {}
  // As next_logits() of all tokens; they begin with those of the calls before and are more.
  at::Tensor next_logits(const std::vector<std::int64_t>& tokens);

 private:
  const exec::Model& model_;
  std::vector<exec::Past> pasts_;
  std::size_t read_ = 0;
};

struct GenerateArgs {
  std::vector<std::int64_t> prompt;  // at least one token
  std::int64_t max_tokens = 0;
  std::int64_t context = 0;  // model.seq_len; the window slides when the text is longer
  Sampling sampling;
  std::function<bool(std::int64_t token)> on_token;  // false ends generation; may be empty
};

// Returns the new tokens. While the text fits into the context the model reads each token once, then the whole window for
// each new token.
std::vector<std::int64_t> generate(const exec::Model& model, const GenerateArgs& args);

}  // namespace trireme::blocks
