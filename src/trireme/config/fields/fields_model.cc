// What is trained, and on what.
#include "trireme/config/families.h"
#include "trireme/config/fields/field_kinds.h"
#include "trireme/config/fields/field_lists.h"

namespace trireme::config {
namespace {

// Of all parts of a model, towers as well.
Field init_std_field() {
  Field field =
      number(KEY(model.init_std), "Standard deviation of the initial weights.", from(0, 10));
  field.set = [](Job& job, const Value& value) {
    job.model.init_std = job.vision.init_std = std::get<double>(value);
  };
  return field;
}

Field family_field() {
  std::vector<std::pair<std::string_view, Family>> names;
  std::string doc = "Architecture:";
  for (const FamilyInfo& one : families()) {
    names.emplace_back(one.name, one.family);
    doc += fmt::format("{} {} ({})", names.size() == 1 ? "" : ",", one.name, one.about);
  }
  return inherited(fixed(choice(KEY(model.family), doc + ".", names)));
}

Field attention_layers_field() {
  return of_weights(text(
      KEY(model.attention_layers),
      "Attention by layer (llama), comma-separated and repeated: full, sliding:TOKENS (a window "
      "with the token itself) or nope (full, without rotary positions), each as COUNTx, such "
      "as 3xsliding:4096,full. Empty: full."));
}

Field rope_scaling_field() {
  return of_weights(
      text(KEY(model.rope_scaling),
           "Scaling of rotary frequencies (llama), with the sequence length of pretraining: linear "
           "factor=8, dynamic factor=2 original=4096 (by model.seq_len), llama3 factor=32 "
           "original=8192 [low=1 high=4] or yarn factor=4 original=32768 [fast=32 slow=1 "
           "attention=F truncate=1]. Also longrope factor=32 original=4096 short=A,B.. long=A,B.. "
           "[attention=F], whose lists divide each frequency for model.seq_len up to original and "
           "above. Empty: none."));
}

}  // namespace

std::vector<Field> model_fields() {
  return {
      family_field(),
      of_weights(integer(KEY(model.layers), "Transformer blocks.", from(1, 1 << 16))),
      of_weights(integer(KEY(model.hidden), "Width of the residual stream.", from(1, kMaxWidth))),
      of_weights(integer(KEY(model.heads),
                         "Attention heads. Must divide model.hidden unless model.head_dim is set.",
                         from(1, 1 << 16))),
      of_weights(integer(KEY(model.kv_heads), "Key-value heads (llama). 0: as many as model.heads.",
                         from(0, 1 << 16))),
      of_weights(integer(KEY(model.head_dim),
                         "Width of an attention head, an even number (llama). 0: hidden / heads.",
                         from(0, kMaxWidth))),
      of_weights(
          boolean(KEY(model.qkv_bias),
                  "Biases of the query, key and value projections (llama; true for Qwen2).")),
      of_weights(boolean(
          KEY(model.qk_norm),
          "RMS norms of each head's queries and keys before rotation (llama; true for Qwen3).")),
      attention_layers_field(),
      of_weights(
          integer(KEY(model.ffn),
                  "Width of the feed-forward layers. 0: 4 x hidden (gpt, neox), or 8/3 x hidden "
                  "rounded up to a multiple of 256 (llama).",
                  from(0, 1 << 24))),
      of_weights(integer(KEY(model.vocab),
                         "Rows of the token embedding, at least the data set's vocabulary. 0: "
                         "exactly that vocabulary.",
                         from(0, kMaxIds))),
      inherited(fixed(
          integer(KEY(model.seq_len), "Sequence length in tokens per sample.", from(1, kMaxIds)))),
      of_weights(
          boolean(KEY(model.tied), "Weight tying: the output layer shares the token embedding.")),
      inherited(fixed(number(KEY(model.dropout), "Dropout probability (gpt).", half_open(0, 1)))),
      of_weights(number(KEY(model.norm_eps), "Epsilon of LayerNorm and RMSNorm.", above(0, 1))),
      of_weights(number(KEY(model.rope_theta), "Base of the rotary frequencies (llama, neox).",
                        above(1, 1e9))),
      rope_scaling_field(),
      fixed(init_std_field()),
      fixed(text(
          KEY(model.frozen),
          "Units without gradients and updates, as comma-separated patterns of unit names (embed, "
          "block.0, head); * matches anything, [0-3] these numbers. Empty: every unit trains.")),
      // Not fixed: a run that resumes has its weights from its own checkpoint.
      text(KEY(model.weights),
           "Initial weights: a run directory, a checkpoint (step-N) or a Hugging Face directory. "
           "Empty: random weights. A resumed run reads only weights that its checkpoints leave out "
           "(checkpoint.trainable_only)."),
  };
}

namespace {

Field source_field() {
  return fixed(choice(
      KEY(data.source),
      "Source of samples. Text: text (token data sets and text files), chat (conversations, "
      "docs/chat.md), preferences (compared answers, docs/preferences.md, and rollouts, "
      "docs/rollouts.md). Synthetic text: words "
      "(random words), affine (sequences x <- (a x + 1) mod 251). Synthetic images: stripes "
      "(labelled patterns), scenes (shapes with captions or questions), quadrants (patterns "
      "and a question). Synthetic clips: squares (moving squares), arm (a square moved by "
      "actions). Files (docs/data.md): images (labelled), pairs (with captions or questions), "
      "clips (videos), trajectories (robot videos with actions).",
      {{"text", DataSource::kText},
       {"chat", DataSource::kChat},
       {"preferences", DataSource::kPreferences},
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
       {"trajectories", DataSource::kTrajectories}}));
}

}  // namespace

std::vector<Field> data_fields() {
  return {
      source_field(),
      fixed(
          integer(KEY(data.samples), "Samples per epoch of a synthetic source.", from(2, kMaxIds))),
      // Not fixed: a dataset may move; a checkpoint knows its content by digest.
      text(KEY(data.path),
           "Data: a token data set of `trireme data prepare`, a text file or, for images, pairs, "
           "clips and trajectories, a directory, a list or tar shards. Empty: the C++ headers of "
           "this machine."),
      // Not fixed: a file may move; a checkpoint knows the dataset's vocabulary by digest.
      text(KEY(data.tokenizer),
           "Tokenizer: bytes, characters, bpe:N (byte-level BPE of 257 to 1048576 tokens, learned "
           "from the training split) or a path. A path is a Hugging Face tokenizer.json, a "
           "SentencePiece model, a vocabulary.json or a directory with one of them. Left out with "
           "model.weights: the "
           "vocabulary of the weights."),
      fixed(integer(KEY(data.seed), "Seed of the sample order.", from(0, kMaxSeed))),
      fixed(number(KEY(data.validation),
                   "Size of the validation split: a fraction up to 0.5 of the text or samples, or "
                   "a number of samples or text files. 0: none.",
                   from(0, kMaxIds))),
      fixed(boolean(KEY(data.documents),
                    "Document masking: attention and positions stay within a document. false: each "
                    "sample is one text.")),
      fixed(text(KEY(data.chat),
                 "Chat template of data.source=chat and preferences, and of questions about "
                 "pictures, auto or a name, with options: date=2026-03-09 (of templates that write "
                 "today's date), long=cut or long=split (conversations beyond model.seq_len, which "
                 "are refused by default), special=forbid (special tokens within messages are "
                 "refused). Empty: auto; questions are read as they are written.")),
      fixed(text(KEY(data.weights),
                 "Sampling weights of several data sets, comma-separated, one per path of "
                 "data.path (such as 0.9,0.1). Empty: data.path is one data set.")),
      fixed(boolean(KEY(data.antialias),
                    "Antialiasing of pictures and clips that shrink, in 8 bits. false: bilinear "
                    "interpolation in fp32, as in V-JEPA 2's training.")),
  };
}

std::vector<Field> lora_fields() {
  return {
      compared(fixed(integer(KEY(lora.rank),
                             "Rank of the LoRA adapters that train in place of the weights "
                             "(docs/lora.md). 0: no adapters.",
                             from(0, kMaxWidth)))),
      compared(fixed(number(
          KEY(lora.alpha), "LoRA alpha: adapter outputs are scaled by alpha / rank (lora.scaling).",
          above(0, 1e6)))),
      compared(fixed(choice(
          KEY(lora.scaling), "Divisor of lora.alpha: the rank, or the root of the rank (rsLoRA).",
          {{"rank", LoraScaling::kRank}, {"root_rank", LoraScaling::kRootRank}}))),
      fixed(
          number(KEY(lora.dropout), "Dropout probability of the adapter inputs.", half_open(0, 1))),
      compared(fixed(choice(KEY(lora.targets), "Linear layers of a block with an adapter.",
                            {{"all", LoraTargets::kAll},
                             {"attention", LoraTargets::kAttention},
                             {"query_value", LoraTargets::kQueryValue},
                             {"mlp", LoraTargets::kMlp}}))),
      compared(fixed(boolean(KEY(lora.dora),
                             "DoRA: adapted weights are scaled to trained magnitudes of their "
                             "rows, which begin at those of the weights."))),
      fixed(
          choice(KEY(lora.base),
                 "Stored form of the frozen weights of blocks: in precision.compute, or quantised "
                 "to 8 bits by row or to 4-bit NormalFloat in blocks of 64 (QLoRA).",
                 {{"full", RowForm::kFull}, {"int8", RowForm::kInt8}, {"nf4", RowForm::kNf4}})),
      fixed(text(KEY(lora.also),
                 "Units that train in addition to the adapters, as patterns like model.frozen's.")),
  };
}

}  // namespace trireme::config
