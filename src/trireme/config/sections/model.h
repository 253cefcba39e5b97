// Sections of a job that say what the model is, as plain data.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "trireme/config/sections/activation.h"
#include "trireme/config/sections/decoder.h"
#include "trireme/config/sections/lora.h"

namespace trireme::config {

// Each has a record, config/families.h.
enum class Family {
  kGpt,
  kLlama,
  kVit,
  kClip,
  kJepa,
  kJepaAc,
  kProbe,
  kHnet,
  kVlm,
  kHvjepa,
  kArrcoc,
  kNeox
};

// In a resolved job no size is 0 any more.
struct Model {
  Family family{};  // gpt
  std::int64_t layers = 2;
  std::int64_t hidden = 64;
  std::int64_t heads = 4;
  std::int64_t kv_heads = 0;     // 0: as many as heads
  std::int64_t head_dim = 0;     // 0: hidden / heads
  bool qkv_bias = false;         // of queries, keys and values (Qwen2)
  bool qk_norm = false;          // of every query and key (Qwen3)
  std::string attention_layers;  // config/layer_attention.h; empty: all attend to everything before
  std::int64_t ffn = 0;          // 0: 4 * hidden (gpt), SwiGLU's two thirds of it (llama)
  std::int64_t vocab = 0;        // 0: the dataset's
  std::int64_t seq_len = 32;
  bool tied = true;
  double dropout = 0;
  double norm_eps = 1e-5;
  double rope_theta = 10000;
  std::string rope_scaling;  // config/rope.h; empty: none
  double init_std = 0.02;
  std::string frozen;   // patterns of units
  std::string weights;  // a checkpoint; empty: initial values are drawn
  bool operator==(const Model&) const = default;
};

// Vision towers: keys of the section are of every family that has one.
enum class Positions { kLearned, kRotary, kRotaryCompat, kLearnedRotary };
enum class Pooling { kMean, kClass, kAttention };

struct Vision {
  std::int64_t image = 32;   // pixels a side
  std::int64_t patch = 8;    // pixels a side
  std::int64_t frames = 1;   // of a clip
  std::int64_t tubelet = 1;  // frames of a token
  std::int64_t layers = 4;
  std::int64_t hidden = 128;
  std::int64_t heads = 4;
  std::int64_t ffn = 0;  // 0: 4 * hidden
  Activation activation = Activation::kGelu;
  Positions positions = Positions::kLearned;
  std::int64_t position_grid = 0;  // learned positions a side, resampled; 0: the tokens'
  Pooling pooling = Pooling::kMean;
  bool pre_norm = false;  // a norm before the first block
  double norm_eps = 1e-6;
  double init_std = 0.02;    // model.init_std
  std::string pixels;        // their mean and deviation (config/pixels.h); empty: the family's
  std::int64_t classes = 0;  // 0: the dataset's
  bool chunked = false;      // blocks see chunks of tokens, as H-V-JEPA's do
  bool operator==(const Vision&) const = default;
};

enum class ContrastiveLoss { kClip, kSiglip };

struct Contrastive {
  ContrastiveLoss loss = ContrastiveLoss::kClip;
  std::int64_t width = 64;  // of the space that both towers project to
  bool operator==(const Contrastive&) const = default;
};

// The predictor of V-JEPA 2 and what it is trained by.
struct Jepa {
  std::int64_t layers = 12;
  std::int64_t hidden = 384;
  std::int64_t heads = 12;
  std::int64_t mask_tokens = 1;          // 1: both masks share it
  double momentum = 0.99925;             // of the teacher
  std::optional<double> momentum_end{};  // at the last step; none: the same
  std::string masks = "8x0.15,2x0.7";    // config/mask_rules.h
  std::int64_t cut_batch = 0;            // samples that are cut to one length; 0: none
  bool operator==(const Jepa&) const = default;
};

// Numbers of an action and of a state of V-JEPA 2-AC: place, angles and gripper.
inline constexpr std::int64_t kActionNumbers = 7;

// The action-conditioned predictor of V-JEPA 2-AC.
struct Action {
  std::int64_t layers = 24;
  std::int64_t hidden = 1024;
  std::int64_t heads = 16;
  std::int64_t rollout = 2;  // predictions that are made of predictions
  bool operator==(const Action&) const = default;
};

struct Probe {
  std::int64_t layers = 4;  // the last one attends across
  std::int64_t heads = 16;
  std::string lr;             // factors of optim.lr, one a probe; empty: one probe
  std::string weight_decay;   // factors of optim.weight_decay, each with every rate; empty: all 1
  std::int64_t augment = 0;   // random operations on a clip, which is then erased in part as well
  std::int64_t segments = 1;  // clips of a sample, whose tokens follow one another
  std::int64_t views = 1;     // crops of a held-out sample, whose probabilities are averaged
  bool operator==(const Probe&) const = default;
};

// H-Net (Hwang et al. 2025): lists have one entry a stage, from the outermost.
struct Hnet {
  std::string layout = "T2,[T3],T2";
  std::string hidden = "128,192";
  std::string heads = "4,4";
  std::string ffn = "256,576";
  std::string ratio = "4";  // bytes, or chunks, of a chunk; of every stage but the innermost
  double ratio_weight = 0.03;
  std::string lr;      // factors of optim.lr; empty: all 1
  std::string window;  // positions that attention looks back, of every stage; empty: all
  bool operator==(const Hnet&) const = default;
};

// Dynamic chunks of a clip's tokens (docs/models_hvjepa.md).
enum class ChunkMode { kThreshold, kTopK, kFixed };

struct Chunk {
  ChunkMode mode = ChunkMode::kThreshold;
  std::int64_t ratio = 16;  // tokens of a chunk
  std::int64_t hidden = 384;
  std::int64_t heads = 6;
  std::int64_t layers = 2;  // in which tokens attend to neighbours
  bool operator==(const Chunk&) const = default;
};

enum class LocalStatistics { kMatch, kPooled };

// Variance, invariance and covariance of embeddings (Bardes et al. 2022), over a global batch.
struct Vicreg {
  double weight = 0;  // of the loss as a whole; 0: none
  LocalStatistics statistics = LocalStatistics::kMatch;
  std::int64_t width = 64;            // of the expander of clips
  std::int64_t local_width = 64;      // of the expander of chunks
  std::int64_t feature_matches = 20;  // 0: all
  bool operator==(const Vicreg&) const = default;
};

// Regions of an image get as many tokens as they are worth (docs/models_arrcoc.md).
enum class Allocation { kLearned, kUniform, kRandom };
enum class RegionDecoder { kLlama, kGpt };

struct Arrcoc {
  std::int64_t grid = 4;   // regions a side
  std::int64_t least = 8;  // tokens a side of a region
  std::int64_t most = 20;
  std::int64_t budget = 0;  // tokens of an image; 0: 2.25 times the least
  bool gate = true;         // gradients reach the scorers
  bool explore = true;
  Allocation allocation = Allocation::kLearned;  // arrcoc.scorers=uniform and random
  std::string channels = "all";                  // of the texture
  std::string scorers = "information,salience,coupling";
  std::int64_t hidden = 128;  // of scorers
  std::int64_t coupling = 0;  // width of what regions and questions are compared in; 0: hidden / 2
  std::int64_t balancer = 0;  // width; 0: hidden
  RegionDecoder decoder = RegionDecoder::kLlama;
  bool learn_budget = false;  // tension sets how much of it is used: arrcoc.scorers=..,budget
  double budget_weight = 0;   // of the share of it that is used, in the loss
  double entropy_weight = 0;  // of the allocation's entropy, which is gained
  bool operator==(const Arrcoc&) const = default;
};

enum class ProjectorKind { kLinear, kMlp, kQFormer, kPerceiver, kNone, kMerger };

struct Projector {
  ProjectorKind kind = ProjectorKind::kMlp;
  std::int64_t hidden = 0;  // of a Q-Former or resampler; 0: the tower's
  std::int64_t layers = 6;
  std::int64_t heads = 8;
  std::int64_t queries = 32;
  bool operator==(const Projector&) const = default;
};

// Whose tower a vision-language model has.
enum class VlmTower { kVit, kJepa };
// How an image fills tiles: of two equally good grids, by that with fewer columns (kTall) or rows (kWide), or centred.
enum class VlmFit { kTall, kWide, kPad };

// How a vision-language model sees.
struct Vlm {
  VlmTower tower = VlmTower::kVit;
  std::int64_t layer = -2;     // of the tower, whose output is read; from the end if below 0
  std::int64_t max_tiles = 4;  // of an image, in addition to the one of the whole image
  VlmFit fit = VlmFit::kTall;
  std::string mrope;      // frequencies of time, row and column; empty: one position
  std::string deepstack;  // layers of the tower that the decoder's first ones see as well
  bool pack = false;      // several samples to a row
  bool balance = false;   // samples go to ranks by their work
  std::string features;   // where a frozen tower's features are kept; empty: nowhere
  // Decoder blocks to one that attends to images in place of their tokens (Flamingo), and its heads of 64 channels.
  std::array<std::int64_t, 2> cross = {0, 8};  // 0 blocks: tokens
  bool operator==(const Vlm&) const = default;
};

}  // namespace trireme::config
