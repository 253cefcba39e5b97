// Parameters of decoders: initial values, and how tensor parallelism cuts them.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "trireme/config/head_width.h"
#include "trireme/config/sections/model.h"
#include "trireme/model/account/per_rank.h"
#include "trireme/model/spec.h"

namespace trireme::model {

// Matrices are drawn from N(0, init_std^2). Those that write to the residual stream have a deviation smaller by sqrt(2
// layers) (GPT-2's report; Megatron does so for every family).
struct Initial {
  Initial(const Init& all, const Init& to_residual) : matrix(all), residual(to_residual) {}
  explicit Initial(const config::Model& model)
      : matrix{.kind = Init::Kind::kNormal, .std = model.init_std},
        residual{.kind = Init::Kind::kNormal,
                 .std = model.init_std / std::sqrt(2.0 * static_cast<double>(model.layers))} {}
  Init matrix;
  Init residual;
};

// Cuts by whole heads and by single features.
struct Cuts {
  Cuts(const config::Model& model, const PerRank& rank)
      : width(config::head_width(model)),
        q{.granules = model.heads, .size = width},
        kv{.granules = model.kv_heads, .size = width, .sharers = model.heads / model.kv_heads},
        whole{.partial = rank.sequence} {}

  static Cut rows(std::vector<CutSegment> segments) {
    return {.dim = 0, .segments = std::move(segments)};
  }
  static Cut columns(std::vector<CutSegment> segments) {
    return {.dim = 1, .segments = std::move(segments)};
  }
  static CutSegment each(std::int64_t features) { return {.granules = features}; }

  std::int64_t width;  // of a head
  CutSegment q;
  CutSegment kv;
  Cut whole;
};

inline ParamSpec matrix(std::string name, std::int64_t out, std::int64_t in, const Init& init,
                        Cut cut) {
  return {.name = std::move(name), .shape = {out, in}, .init = init, .cut = std::move(cut)};
}
inline ParamSpec vector(std::string name, std::int64_t size, Init::Kind init, Cut cut) {
  return {.name = std::move(name),
          .shape = {size},
          .init = {.kind = init},
          .decay = 0,
          .cut = std::move(cut)};
}
inline ParamSpec gain(std::string name, std::int64_t size, const Cut& cut) {
  return vector(std::move(name), size, Init::Kind::kOnes, cut);
}
inline ParamSpec bias(std::string name, std::int64_t size, const Cut& cut) {
  return vector(std::move(name), size, Init::Kind::kZeros, cut);
}
// Rows of tokens, or of the output layer.
inline ParamSpec token_table(std::string name, const config::Model& model) {
  return matrix(std::move(name), model.vocab, model.hidden, Initial(model).matrix,
                Cuts::rows({Cuts::each(model.vocab)}));
}

// Operations of an element: LayerNorm takes mean, variance, scale and shift; RMSNorm squares, scale and gain.
inline constexpr double kLayerNormFlops = 8, kRmsNormFlops = 4;

}  // namespace trireme::model
