// Classes of Hugging Face that a family can be read from and written as.
#include <array>
#include <cmath>
#include <vector>

#include "trireme/checkpoint/convert/config_classes.h"
#include "trireme/config/layer_attention.h"

namespace trireme::convert {
namespace {

using config::DataSource;
using config::Family;
using config::Job;

void no_choice(Job&) {}

// Layers that attend in ways that a class has no keys for.
void as_full_attention(Job& job) { job.model.attention_layers = ""; }

void as_llama(Job& job) {
  job.llama = {};
  job.model.qkv_bias = job.model.qk_norm = false;
  as_full_attention(job);
}

void as_mistral(Job& job) {
  job.llama = {};
  job.model.qkv_bias = job.model.qk_norm = false;
  const std::vector<config::LayerAttention> layers = config::layer_attention(job.model);
  if (!slides_last(job.model) || layers.front() != layers.back()) as_full_attention(job);
}

void as_qwen2(Job& job) {
  job.llama = {};
  job.model.qkv_bias = true;
  job.model.qk_norm = false;
  if (!slides_last(job.model)) as_full_attention(job);
}

void as_qwen3(Job& job) {
  job.llama = {};
  job.model.qkv_bias = false;
  job.model.qk_norm = true;
  if (!slides_last(job.model)) as_full_attention(job);
}

void as_smollm3(Job& job) {
  job.llama = {};
  job.model.qkv_bias = job.model.qk_norm = false;
  for (const config::LayerAttention& layer : config::layer_attention(job.model))
    if (layer.window > 0) return as_full_attention(job);
}

void as_olmo3(Job& job) {
  job.model.qkv_bias = false;
  job.model.qk_norm = true;
  if (!slides_alike(job.model)) as_full_attention(job);
  const bool scaled = !job.model.rope_scaling.empty() && !job.model.attention_layers.empty();
  job.llama = {.norms = config::NormPlaces::kAfter,
               .whole_qk_norm = true,
               .sliding_theta = scaled ? job.model.rope_theta : 0};
}

void as_olmo2(Job& job) {
  as_full_attention(job);
  as_olmo3(job);
}

void as_gemma3(Job& job) {
  job.model.qkv_bias = false;
  job.model.qk_norm = true;
  if (!slides_alike(job.model)) as_full_attention(job);
  const config::Llama own = job.llama;
  const bool scaled = !job.model.rope_scaling.empty() && !job.model.attention_layers.empty();
  job.llama = {
      .norms = config::NormPlaces::kBoth,
      .gains_from_one = true,
      .gate = config::GateActivation::kGeluTanh,
      .sliding_theta = scaled && own.sliding_theta == 0 ? job.model.rope_theta : own.sliding_theta,
      .attention_multiplier = own.attention_multiplier,
      .embedding_multiplier = std::sqrt(static_cast<double>(job.model.hidden))};
}

void as_granite(Job& job) {
  job.model.qkv_bias = job.model.qk_norm = false;
  as_full_attention(job);
  const config::Llama own = job.llama;
  job.llama = {.attention_multiplier = own.attention_multiplier,
               .embedding_multiplier = own.embedding_multiplier,
               .residual_multiplier = own.residual_multiplier,
               .logits_divisor = own.logits_divisor};
}

void images_by_class_token(Job& job) {
  job.vision.frames = job.vision.tubelet = 1;
  job.vision.positions = config::Positions::kLearned;
  job.vision.position_grid = 0;
  job.vision.pooling = config::Pooling::kClass;
}

void as_vit(Job& job) {
  images_by_class_token(job);
  job.vision.pre_norm = false;
}

void as_clip(Job& job) {
  images_by_class_token(job);
  job.vision.pre_norm = true;
  job.contrastive.loss = config::ContrastiveLoss::kClip;
}

// CLIP's tower, followed by the classes of family vit.
void as_clip_vision(Job& job) {
  images_by_class_token(job);
  job.vision.pre_norm = true;
}

// One tile of all of an image; of any resolution with those of up to 4 more.
void as_llava(Job& job) {
  as_clip_vision(job);
  job.projector = {.kind = config::ProjectorKind::kMlp};
  job.vlm.max_tiles = 0;
  job.vlm.mrope = job.vlm.deepstack = "";
  job.vlm.cross = config::Vlm{}.cross;
}

void as_llava_next(Job& job) {
  as_llava(job);
  job.vlm.max_tiles = 4;
}

void as_vjepa(Job& job) { job.vision.positions = config::Positions::kRotaryCompat; }

// Defaults of the reference code that no file contains.
void as_hnet(Job& job) {
  job.model.norm_eps = 1e-5;
  job.model.rope_theta = 10000;
}

// One probe, whose heads are the encoder's.
void as_vjepa_probe(Job& job) {
  as_vjepa(job);
  job.vision.chunked = false;
  job.probe.heads = job.vision.heads;
  job.probe.lr = job.probe.weight_decay = "";
}

constexpr std::array kClasses = {
    HuggingFaceClass{Family::kGpt, DataSource::kText, "gpt2", "GPT2LMHeadModel", no_choice,
                     read_gpt2, write_gpt2},
    HuggingFaceClass{Family::kNeox, DataSource::kText, "gpt_neox", "GPTNeoXForCausalLM", no_choice,
                     read_neox, write_neox},
    HuggingFaceClass{Family::kLlama, DataSource::kText, "llama", "LlamaForCausalLM", as_llama,
                     read_llama, write_llama},
    HuggingFaceClass{Family::kLlama, DataSource::kText, "mistral", "MistralForCausalLM", as_mistral,
                     read_mistral, write_mistral},
    HuggingFaceClass{Family::kLlama, DataSource::kText, "phi3", "Phi3ForCausalLM", as_mistral,
                     read_phi3, write_mistral},
    HuggingFaceClass{Family::kLlama, DataSource::kText, "qwen2", "Qwen2ForCausalLM", as_qwen2,
                     read_qwen2, write_qwen2},
    HuggingFaceClass{Family::kLlama, DataSource::kText, "qwen3", "Qwen3ForCausalLM", as_qwen3,
                     read_qwen3, write_qwen3},
    HuggingFaceClass{Family::kLlama, DataSource::kText, "smollm3", "SmolLM3ForCausalLM", as_smollm3,
                     read_smollm3, write_smollm3},
    HuggingFaceClass{Family::kLlama, DataSource::kText, "olmo2", "Olmo2ForCausalLM", as_olmo2,
                     read_olmo2, write_olmo2},
    HuggingFaceClass{Family::kLlama, DataSource::kText, "olmo3", "Olmo3ForCausalLM", as_olmo3,
                     read_olmo3, write_olmo3},
    HuggingFaceClass{Family::kLlama, DataSource::kText, "gemma3_text", "Gemma3ForCausalLM",
                     as_gemma3, read_gemma3, write_gemma3},
    HuggingFaceClass{Family::kLlama, DataSource::kText, "gemma3", "Gemma3ForConditionalGeneration",
                     as_gemma3, read_gemma3_with_tower, write_gemma3},
    HuggingFaceClass{Family::kLlama, DataSource::kText, "granite", "GraniteForCausalLM", as_granite,
                     read_granite, write_granite},
    HuggingFaceClass{Family::kVit, DataSource::kStripes, "vit", "ViTForImageClassification", as_vit,
                     read_vit, write_vit, "ViTImageProcessor"},
    HuggingFaceClass{Family::kVit, DataSource::kStripes, "clip_vision_model", "CLIPVisionModel",
                     as_clip_vision, read_clip_classes, write_clip_classes},
    HuggingFaceClass{Family::kClip, DataSource::kScenes, "clip", "CLIPModel", as_clip, read_clip,
                     write_clip},
    HuggingFaceClass{Family::kJepa, DataSource::kSquares, "vjepa2", "VJEPA2Model", as_vjepa,
                     read_vjepa, write_vjepa, "VJEPA2VideoProcessor", true},
    HuggingFaceClass{Family::kProbe, DataSource::kSquares, "vjepa2", "VJEPA2ForVideoClassification",
                     as_vjepa_probe, read_vjepa_probe, write_vjepa_probe, "VJEPA2VideoProcessor",
                     true},
    HuggingFaceClass{Family::kVlm, DataSource::kScenes, "llava", "LlavaForConditionalGeneration",
                     as_llava, read_llava, write_llava, "LlavaImageProcessor"},
    HuggingFaceClass{Family::kVlm, DataSource::kScenes, "llava_next",
                     "LlavaNextForConditionalGeneration", as_llava_next, read_llava_next,
                     write_llava_next, "LlavaNextImageProcessor"},
    HuggingFaceClass{Family::kHnet, DataSource::kText, "hnet", nullptr, as_hnet, read_hnet,
                     write_hnet},
};

}  // namespace

std::span<const HuggingFaceClass> hugging_face_classes() { return kClasses; }

}  // namespace trireme::convert
