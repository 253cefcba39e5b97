// Files of VJEPA2ForVideoClassification.
#include "trireme/families/jepa/hugging_face.h"

#include <array>

#include "trireme/checkpoint/convert/families.h"
#include "trireme/families/vit/hugging_face.h"

namespace trireme::convert {

using config::DataSource;
using config::Job;
using formats::JsonFields;

namespace {

// Of a VJEPA2ForVideoClassification.
constexpr std::int64_t kPoolerLayers = 3;

void read_vjepa_probe(const JsonFields& fields, Job& job) {
  read_vjepa_encoder(fields, job);
  job.probe.layers =
      1 + (says(fields, "num_pooler_layers") ? fields.integer("num_pooler_layers", 0, kMostSize)
                                             : kPoolerLayers);
  job.probe.heads = job.vision.heads;
  job.vision.classes = classes_of(fields);
}

void write_vjepa_probe(const Job& job, Json& json) {
  write_vjepa_encoder(job, json);
  json.update({{"num_pooler_layers", job.probe.layers - 1}, {"num_labels", job.vision.classes}});
}

// One probe, whose heads are the encoder's.
void as_vjepa_probe(Job& job) {
  as_vjepa(job);
  job.vision.chunked = false;
  job.probe.heads = job.vision.heads;
  job.probe.lr = job.probe.weight_decay = "";
}

// The encoder as part of a model that classifies, and the probe on it.
constexpr std::array kVjepaProbeRules = {
    Rule{"target_encoder.patch_embed.proj.*", "vjepa2.encoder.embeddings.patch_embeddings.proj.*"},
    Rule{"target_encoder.blocks.*.attn.qkv.*",
         "vjepa2.encoder.layer.*.attention.{query,key,value}.*"},
    Rule{"target_encoder.blocks.*.attn.proj.*", "vjepa2.encoder.layer.*.attention.proj.*"},
    Rule{"target_encoder.blocks.*.**", "vjepa2.encoder.layer.*.**"},
    Rule{"target_encoder.norm.*", "vjepa2.encoder.layernorm.*"},
    Rule{"pooler.query_tokens", "pooler.query_tokens"},
    Rule{"pooler.blocks.*.norm1.*", "pooler.self_attention_layers.*.layer_norm1.*"},
    Rule{"pooler.blocks.*.attn.qkv.*", "pooler.self_attention_layers.*.self_attn.{q,k,v}_proj.*"},
    Rule{"pooler.blocks.*.attn.proj.*", "pooler.self_attention_layers.*.self_attn.out_proj.*"},
    Rule{"pooler.blocks.*.norm2.*", "pooler.self_attention_layers.*.layer_norm2.*"},
    Rule{"pooler.blocks.*.mlp.*.*", "pooler.self_attention_layers.*.mlp.*.*"},
    Rule{"pooler.cross_attention_block.norm1.*", "pooler.cross_attention_layer.layer_norm1.*"},
    Rule{"pooler.cross_attention_block.xattn.q.*",
         "pooler.cross_attention_layer.cross_attn.q_proj.*"},
    Rule{"pooler.cross_attention_block.xattn.kv.*",
         "pooler.cross_attention_layer.cross_attn.{k,v}_proj.*"},
    Rule{"pooler.cross_attention_block.norm2.*", "pooler.cross_attention_layer.layer_norm2.*"},
    Rule{"pooler.cross_attention_block.mlp.*.*", "pooler.cross_attention_layer.mlp.*.*"},
    Rule{"linear.*", "classifier.*"},
};

}  // namespace

FamilyFiles probe_hugging_face() {
  return {
      .classes = {{DataSource::kSquares, "vjepa2", "VJEPA2ForVideoClassification", as_vjepa_probe,
                   read_vjepa_probe, write_vjepa_probe, "VJEPA2VideoProcessor", true}},
      .names = {// The predictor lies in published files and takes no part in classifying.
                {.name = "VJEPA2ForVideoClassification",
                 .rules = kVjepaProbeRules,
                 .idle = "vjepa2.predictor.*"}}};
}

}  // namespace trireme::convert
