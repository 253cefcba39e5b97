// What is trained, and on what.
#include "trireme/config/fields/field_kinds.h"
#include "trireme/config/fields/field_lists.h"

namespace trireme::config {

std::vector<Field> model_fields() {
  return {
      inherited(fixed(choice(
          KEY(model.family),
          "Architecture: GPT-2 (learned positions, LayerNorm, GELU) or Llama (RoPE, "
          "RMSNorm, SwiGLU, grouped-query attention), vit (images told apart), clip (images "
          "and captions, CLIP and SigLIP), jepa (V-JEPA 2), probe (clips told apart by its "
          "frozen encoder), jepa_ac (its action-conditioned predictor), hnet (H-Net: bytes in a "
          "hierarchy whose router cuts them into chunks), hvjepa (V-JEPA 2 on chunks of a "
          "clip's tokens), vlm (images and text in one sequence, answered in text) or arrcoc "
          "(regions of an image have as many tokens as they are worth to the question).",
          {{"gpt", Family::kGpt},
           {"llama", Family::kLlama},
           {"vit", Family::kVit},
           {"clip", Family::kClip},
           {"hnet", Family::kHnet},
           {"vlm", Family::kVlm},
           {"arrcoc", Family::kArrcoc},
           {"jepa", Family::kJepa},
           {"hvjepa", Family::kHvjepa},
           {"probe", Family::kProbe},
           {"jepa_ac", Family::kJepaAc}}))),
      of_weights(integer(KEY(model.layers), "Transformer blocks.", from(1, 1 << 16))),
      of_weights(integer(KEY(model.hidden), "Width of the residual stream.", from(1, kMaxWidth))),
      of_weights(
          integer(KEY(model.heads),
                  "Attention heads; must divide hidden, unless head_dim says how wide they are.",
                  from(1, 1 << 16))),
      of_weights(
          integer(KEY(model.kv_heads),
                  "Key-value heads, each shared by heads / kv_heads query heads (llama); 0: as "
                  "many as heads.",
                  from(0, 1 << 16))),
      of_weights(integer(KEY(model.head_dim), "Width of a head, even (llama); 0: hidden / heads.",
                         from(0, kMaxWidth))),
      of_weights(
          boolean(KEY(model.qkv_bias), "Queries, keys and values have biases (llama: Qwen2).")),
      of_weights(
          boolean(KEY(model.qk_norm),
                  "An RMS norm of each head's queries and keys before they are turned (llama: "
                  "Qwen3).")),
      of_weights(
          integer(KEY(model.ffn),
                  "Width of the feed-forward layer; 0: 4 x hidden (gpt), or 8/3 x hidden rounded "
                  "up to a multiple of 256 (llama).",
                  from(0, 1 << 24))),
      of_weights(integer(
          KEY(model.vocab),
          "Rows of the token embedding, at least the dataset's vocabulary; 0: exactly that.",
          from(0, kMaxIds))),
      inherited(fixed(integer(KEY(model.seq_len), "Tokens per sample.", from(1, kMaxIds)))),
      of_weights(boolean(KEY(model.tied), "The output layer is the token embedding.")),
      inherited(fixed(number(KEY(model.dropout), "Probability of dropping an element (gpt).",
                             half_open(0, 1)))),
      of_weights(number(KEY(model.norm_eps), "Epsilon of LayerNorm and RMSNorm.", above(0, 1))),
      of_weights(
          number(KEY(model.rope_theta), "Base of the rotary frequencies (llama).", above(1, 1e9))),
      fixed(number(KEY(model.init_std), "Standard deviation of initial weights.", from(0, 10))),
      fixed(text(KEY(model.frozen),
                 "Units that do not train, as patterns between commas: embed, block.0 .. and head; "
                 "* stands for anything, [0-3] for these numbers. Empty: all train.")),
      // Not fixed: a run that resumes has its weights from its own checkpoint.
      text(KEY(model.weights),
           "Weights that this model begins with: a run directory, a checkpoint (a step-N "
           "directory), "
           "or a Hugging Face directory (config.json and model.safetensors); empty: random ones. A "
           "run that resumes reads them only for what its checkpoints leave out "
           "(checkpoint.trainable_only)."),
  };
}

std::vector<Field> data_fields() {
  return {
      fixed(choice(
          KEY(data.source),
          "What samples are: text that is cut into tokens; or made up on the way: words, "
          "bytes of 32 random words with a space behind each; affine, x <- (a x + 1) mod 251 "
          "with an a of each sample's own; stripes, labelled images of patterns; scenes, "
          "images of coloured shapes with captions or questions; squares, clips of moving "
          "squares; arm, clips of a square that actions move; quadrants, images of four "
          "patterns and a question about one; or a user's own files (docs/data.md): images, "
          "pictures with classes; pairs, pictures with captions or questions; clips; "
          "trajectories, what a robot saw and did.",
          {{"text", DataSource::kText},
           {"words", DataSource::kWords},
           {"affine", DataSource::kAffine},
           {"stripes", DataSource::kStripes},
           {"scenes", DataSource::kScenes},
           {"squares", DataSource::kSquares},
           {"arm", DataSource::kArm},
           {"quadrants", DataSource::kQuadrants},
           {"images", DataSource::kImages},
           {"pairs", DataSource::kPairs},
           {"clips", DataSource::kClips},
           {"trajectories", DataSource::kTrajectories}})),
      fixed(integer(KEY(data.samples),
                    "Samples of an epoch, of a source that makes them up on the way.",
                    from(2, kMaxIds))),
      // Not fixed: a dataset may move; a checkpoint knows its content by digest.
      text(KEY(data.path),
           "Token dataset made by `trireme data prepare`, or a text file; of images, pairs, clips "
           "and "
           "trajectories a directory, a list or shards; empty: the quick start's text, the C++ "
           "headers of this machine."),
      // Not fixed: a file may move; a checkpoint knows the dataset's vocabulary by digest.
      text(KEY(data.tokenizer),
           "How text becomes tokens: bytes, characters, bpe:N (byte-level BPE of N tokens, 257 to "
           "1048576, learnt from the training split), or a path: a Hugging Face tokenizer.json, a "
           "vocabulary.json, or a run directory, checkpoint, dataset or Hugging Face directory, "
           "whose vocabulary it is. Left out with model.weights: the vocabulary of the weights."),
      fixed(integer(KEY(data.seed), "Seed of the order of samples.", from(0, kMaxSeed))),
      fixed(number(KEY(data.validation),
                   "What is held out for validation: a fraction of the text or of the samples, up "
                   "to 0.5, or a whole number of samples or text files. 0: nothing.",
                   from(0, kMaxIds))),
      fixed(boolean(KEY(data.documents),
                    "Tokens attend within their own document, whose positions begin at 0; else a "
                    "sample is one text, whatever it is cut from.")),
      fixed(text(KEY(data.weights),
                 "Weights of several data sets, such as 0.9,0.1, one for each path of data.path "
                 "(also with commas). A training sample is drawn from each data set with that "
                 "share, with replacement. Empty: data.path is one data set.")),
      fixed(boolean(KEY(data.antialias),
                    "Average pixels where pictures and clips shrink, in 8 bits (default true); "
                    "false: bilinear between four pixels, in fp32, as V-JEPA 2 is trained.")),
  };
}

std::vector<Field> lora_fields() {
  return {
      compared(fixed(
          integer(KEY(lora.rank),
                  "Rank of the low-rank adapters that train in the place of the model's weights "
                  "(docs/lora.md); 0: none.",
                  from(0, kMaxWidth)))),
      compared(fixed(number(KEY(lora.alpha), "What an adapter adds is scaled by alpha / rank.",
                            above(0, 1e6)))),
      fixed(number(KEY(lora.dropout),
                   "Probability of dropping an element of what an adapter reads.",
                   half_open(0, 1))),
      compared(fixed(choice(KEY(lora.targets), "Linear layers of a block that have an adapter.",
                            {{"all", LoraTargets::kAll},
                             {"attention", LoraTargets::kAttention},
                             {"query_value", LoraTargets::kQueryValue},
                             {"mlp", LoraTargets::kMlp}}))),
      fixed(text(
          KEY(lora.also),
          "Units of the model that train beside the adapters, as patterns like model.frozen's.")),
  };
}

}  // namespace trireme::config
