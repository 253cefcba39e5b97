// Vision-language models as data: published parameter counts to the last one.
#include <gtest/gtest.h>

#include "trireme/base/error.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/families/vlm/model.h"
#include "trireme/families/vlm/model_projector.h"
#include "trireme/model/families/describe.h"

namespace trireme::model::vlm_test {
namespace {

using config::Job;

Job vlm_job(const std::vector<std::string>& sets, int ranks = 1) {
  Job job;
  for (const char* set : {"model.family=vlm", "data.source=scenes"}) config::apply_set(job, set);
  for (const std::string& set : sets) config::apply_set(job, set);
  return config::resolve(job, ranks, {});
}

// Of units whose names begin so.
std::int64_t counted(const ModelSpec& spec, std::string_view prefix) {
  std::int64_t sum = 0;
  for (const UnitSpec& unit : spec.units)
    if (unit.name.starts_with(prefix)) sum += unit.numel();
  return sum;
}

// Units of the decoder, which are called neither vision nor projector nor newline.
std::int64_t decoder(const ModelSpec& spec) {
  return spec.parameters() - counted(spec, "vision.") - counted(spec, "projector") -
         counted(spec, "newline");
}

// "hidden,layers,heads,kv_heads,ffn,vocab" of a decoder.
std::vector<std::string> decoder_of(std::int64_t hidden, std::int64_t layers, std::int64_t heads,
                                    std::int64_t kv_heads, std::int64_t ffn, std::int64_t vocab,
                                    bool tied) {
  std::vector<std::string> sets = {tied ? "model.tied=true" : "model.tied=false"};
  for (const auto& [key, value] :
       {std::pair{"hidden", hidden}, std::pair{"layers", layers}, std::pair{"heads", heads},
        std::pair{"kv_heads", kv_heads}, std::pair{"ffn", ffn}, std::pair{"vocab", vocab}})
    sets.push_back("model." + std::string(key) + "=" + std::to_string(value));
  return sets;
}

std::vector<std::string> vlm_with(std::vector<std::string> sets, std::vector<std::string> more) {
  for (std::string& set : more) sets.push_back(std::move(set));
  return sets;
}

const std::vector<std::string> kClipL336 = {"vision.image=336",     "vision.patch=14",
                                            "vision.hidden=1024",   "vision.heads=16",
                                            "vision.layers=24",     "vision.pre_norm=true",
                                            "vision.pooling=class", "vision.activation=quick_gelu"};

TEST(VlmSpec, Llava7bHasItsPublishedParameters) {
  const std::vector<std::string> sets =
      vlm_with(kClipL336, decoder_of(4096, 32, 32, 32, 11008, 32000, false));
  const ModelSpec whole = describe(vlm_job(vlm_with(sets, {"vlm.layer=-1"})));
  EXPECT_EQ(counted(whole, "vision."), 303'507'456);
  EXPECT_EQ(counted(whole, "projector"), 20'979'712);
  EXPECT_EQ(decoder(whole), 6'738'415'616);
  EXPECT_EQ(whole.parameters() - counted(whole, "newline"), 7'062'902'784);
  // Its last block and last norm are never read.
  const ModelSpec read = describe(vlm_job(vlm_with(sets, {"vlm.layer=-2"})));
  EXPECT_EQ(whole.parameters() - read.parameters(), 12'596'224 + 2'048);
}

TEST(VlmSpec, DecodersHaveTheirPublishedParameters) {
  struct Row {
    const char* name;
    std::vector<std::string> sets;
    std::int64_t parameters;
  };
  const std::vector<Row> rows = {
      {"Llama-2 13B", decoder_of(5120, 40, 40, 40, 13824, 32000, false), 13'015'864'320},
      {"Llama-3 8B", decoder_of(4096, 32, 32, 8, 14336, 128256, false), 8'030'261'248},
      {"Llama-3 70B", decoder_of(8192, 80, 64, 8, 28672, 128256, false), 70'553'706'496},
      {"Llama-3.2 1B", decoder_of(2048, 16, 32, 8, 8192, 128256, true), 1'235'814'400},
      {"Llama-3.2 3B", decoder_of(3072, 28, 24, 8, 8192, 128256, true), 3'212'749'824},
      {"TinyLlama", decoder_of(2048, 22, 32, 4, 5632, 32000, false), 1'100'048'384},
      {"Qwen3-1.7B",
       vlm_with(decoder_of(2048, 28, 16, 8, 6144, 151936, true), {"model.qk_norm=true"}),
       1'720'574'976},
      {"Qwen3-VL 8B",
       vlm_with(decoder_of(4096, 36, 32, 8, 12288, 151936, false), {"model.qk_norm=true"}),
       8'190'735'360}};
  for (const Row& row : rows)
    EXPECT_EQ(decoder(describe(vlm_job(row.sets))), row.parameters) << row.name;
}

TEST(VlmSpec, ProjectorsHaveTheirPublishedParameters) {
  const auto projector = [](const std::vector<std::string>& sets) {
    return counted(describe(vlm_job(sets)), "projector");
  };
  EXPECT_EQ(projector({"vision.hidden=1024", "vision.heads=16", "projector.kind=linear",
                       "model.hidden=4096", "model.heads=32"}),
            4'198'400);
  EXPECT_EQ(
      projector({"vision.hidden=1024", "vision.heads=16", "model.hidden=5120", "model.heads=40"}),
      31'467'520);
  // Queries are projected to the decoder's width by one layer more.
  const auto layer = [](std::int64_t in) { return 64 * in + 64; };
  for (const auto& [hidden, parameters] : {std::pair<std::int64_t, std::int64_t>{1024, 63'019'008},
                                           std::pair<std::int64_t, std::int64_t>{1152, 77'974'272}})
    EXPECT_EQ(projector({"vision.hidden=" + std::to_string(hidden), "vision.heads=16",
                         "projector.kind=perceiver", "projector.queries=64"}),
              parameters + layer(hidden));
  EXPECT_EQ(projector({"vision.hidden=1408", "vision.heads=22", "projector.kind=qformer",
                       "projector.hidden=768", "projector.layers=12", "projector.heads=12",
                       "projector.queries=32"}),
            105'162'240 + layer(768));
}

// Width, layers and inner width of a tower, its blocks that DeepStack reads, and what is common to those of Qwen3-VL.
std::vector<std::string> qwen_tower(std::int64_t hidden, std::int64_t layers, std::int64_t ffn,
                                    const std::string& deepstack) {
  std::vector<std::string> sets = {"vision.image=768",
                                   "vision.patch=16",
                                   "vision.frames=2",
                                   "vision.tubelet=2",
                                   "vision.heads=16",
                                   "vision.activation=gelu_tanh",
                                   "vision.positions=learned_rotary",
                                   "vision.position_grid=48",
                                   "projector.kind=merger",
                                   "vlm.layer=-1",
                                   "vlm.max_tiles=0",
                                   "vlm.deepstack=" + deepstack,
                                   "vlm.mrope=24,20,20 interleaved",
                                   "model.head_dim=128",
                                   "model.qk_norm=true"};
  for (const auto& [key, value] :
       {std::pair{"hidden", hidden}, std::pair{"layers", layers}, std::pair{"ffn", ffn}})
    sets.push_back("vision." + std::string(key) + "=" + std::to_string(value));
  return sets;
}

TEST(VlmSpec, Qwen3VlHasItsPublishedParameters) {
  struct Row {
    const char* name;
    std::vector<std::string> sets;
    std::int64_t vision, decoder;
  };
  const std::vector<Row> rows = {{"2B",
                                  vlm_with(qwen_tower(1024, 24, 4096, "5,11,17"),
                                           decoder_of(2048, 28, 16, 8, 6144, 151936, true)),
                                  406'957'056, 1'720'574'976},
                                 {"4B",
                                  vlm_with(qwen_tower(1024, 24, 4096, "5,11,17"),
                                           decoder_of(2560, 36, 32, 8, 9728, 151936, true)),
                                  415'347'712, 4'022'468'096},
                                 {"8B",
                                  vlm_with(qwen_tower(1152, 27, 4304, "8,16,24"),
                                           decoder_of(4096, 36, 32, 8, 12288, 151936, false)),
                                  576'388'336, 8'190'735'360}};
  for (const Row& row : rows) {
    const ModelSpec spec = describe(vlm_job(row.sets));
    const std::int64_t vision =
        counted(spec, "vision.") + counted(spec, "deepstack.") + counted(spec, "projector");
    EXPECT_EQ(vision, row.vision) << row.name;
    EXPECT_EQ(spec.parameters() - vision, row.decoder) << row.name;
  }
}

TEST(VlmSpec, TheRecipeOfQwen3VlIsThe2bModel) {
  const config::Job job =
      config::load_job(Path(TRIREME_SOURCE_DIR) / "recipes" / "qwen3_vl_2b.yaml");
  const ModelSpec spec = describe(config::resolve(job, 1, {}));
  EXPECT_EQ(counted(spec, "vision.embed"), 1'573'888 + 2'359'296);
  EXPECT_EQ(counted(spec, "vision.block."), 24 * 12'596'224);
  EXPECT_EQ(counted(spec, "vision.norm"), 0);
  EXPECT_EQ(counted(spec, "projector"), 25'174'016);
  EXPECT_EQ(counted(spec, "deepstack."), 3 * 25'180'160);
  EXPECT_EQ(counted(spec, "newline"), 0);
  EXPECT_EQ(spec.parameters(), 2'127'532'032);
}

TEST(VlmSpec, TheTinyModelHasTheParametersOfItsTable) {
  const ModelSpec spec = describe(config::resolve(
      config::load_job(Path(TRIREME_SOURCE_DIR) / "recipes" / "vlm_tiny.yaml"), 1, {}));
  EXPECT_EQ(counted(spec, "vision."), 820'096);
  EXPECT_EQ(counted(spec, "projector"), 61'824);
  EXPECT_EQ(decoder(spec), 2'558'400);
  EXPECT_EQ(counted(spec, "newline"), 192);
}

// Decoder blocks in the first of two stages.
int blocks_with_the_tower(std::vector<std::string> sets) {
  sets.insert(sets.end(), {"parallel.pp=2", "model.layers=12", "model.hidden=128"});
  int blocks = 0;
  for (const plan::Node& node : describe(vlm_job(sets, 2)).program.nodes)
    blocks += node.stage == 0 && node.name.starts_with("block.");
  return blocks;
}

TEST(VlmSpec, StagesAreCutByWhatTowerAndDecoderCost) {
  const int trained = blocks_with_the_tower({}),
            frozen = blocks_with_the_tower({"model.frozen=vision.*"});
  EXPECT_LT(trained, frozen);
  EXPECT_LT(frozen, blocks_with_the_tower({"model.frozen=vision.*", "vlm.max_tiles=0"}));
}

TEST(VlmSpec, RowsOfSeveralSamplesHaveRoomForTheTilesOfAll) {
  const Job one = vlm_job({"model.seq_len=128", "run.micro_batch=2", "run.global_batch=2"});
  Job packed = one;
  packed.vlm.pack = true;
  // 16 tokens a tile.
  for (const Job& job : {one, packed}) {
    EXPECT_EQ(row_tiles(job), 8);
    for (const plan::Value& value : describe(job).program.values) {
      const bool of_tiles = value.name.starts_with("vision.") || value.name == "visual_tokens";
      EXPECT_EQ(value.varies, of_tiles) << value.name;
      if (of_tiles) {
        EXPECT_EQ(value.shape[0], 2 * 8) << value.name;
      }
    }
  }
  EXPECT_EQ(expected_tiles(one), 2 * 5);
  EXPECT_EQ(expected_tiles(packed), 2 * 8);
  EXPECT_EQ(position_columns(one), 0);
  EXPECT_EQ(position_columns(packed), 1);
  packed.vlm.mrope = "4,2,2";
  EXPECT_EQ(position_columns(packed), 4);
  const auto flops = [](const Job& job, std::string_view name) {
    for (const plan::Node& node : describe(job).program.nodes)
      if (node.name == name) return node.flops;
    return 0.0;
  };
  EXPECT_DOUBLE_EQ(flops(packed, "vision.block.0"), 16.0 / 10 * flops(one, "vision.block.0"));
  EXPECT_EQ(flops(packed, "block.0"), flops(one, "block.0"));
  packed.projector.kind = config::ProjectorKind::kPerceiver;
  packed.projector.queries = 8;
  EXPECT_EQ(row_tiles(packed), 16);
}

// As in Qwen3-VL: layers 5, 11 and 17, each with a projector of its own, behind the decoder's first three blocks.
TEST(VlmSpec, DeepstackAddsAProjectorForEachLayerBehindABlock) {
  const std::vector<std::string> sets = {"vision.layers=18", "vlm.layer=-1", "model.layers=4"};
  const ModelSpec plain = describe(vlm_job(sets));
  const ModelSpec deep = describe(vlm_job(vlm_with(sets, {"vlm.deepstack=5,11,17"})));
  EXPECT_EQ(deep.parameters() - plain.parameters(), 3 * counted(plain, "projector"));
  const plan::Program& program = deep.program;
  const auto node = [&](const std::string& name) {
    return *std::ranges::find(program.nodes, name, &plan::Node::name);
  };
  const auto value = [&](plan::ValueId id) { return program.values[id].name; };
  for (const auto& [i, layer] : {std::pair{0, 5}, std::pair{1, 11}, std::pair{2, 17}}) {
    const std::string n = std::to_string(i);
    EXPECT_EQ(value(node("deepstack." + n).reads[0]), "vision.x." + std::to_string(layer + 1));
    const plan::Node seen = node("seen." + n);
    EXPECT_EQ(seen.reads[0], node("block." + n).writes[0]);
    EXPECT_EQ(seen.reads[2], node("deepstack." + n).writes[0]);
    EXPECT_EQ(node("block." + std::to_string(i + 1)).reads[0], seen.writes[0]);
  }
}

TEST(VlmSpec, FeaturesAreKeptOfATowerOfOneStage) {
  const auto staged = [](const std::string& stages) {
    return vlm_job({"vision.layers=3", "model.layers=3", "vlm.layer=-1", "model.frozen=vision.*",
                    "vlm.features=somewhere", "parallel.pp=2", "parallel.stages=" + stages},
                   2);
  };
  EXPECT_EQ(describe(staged("4,6")).program.nodes.size(), 10U);
  try {
    describe(staged("3,7"));
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_NE(std::string(error.what()).find("vision.block.2 is on another stage"),
              std::string::npos)
        << error.what();
  }
}

TEST(VlmSpec, AFrozenTowerHasNoBackward) {
  const ModelSpec spec = describe(vlm_job({"model.frozen=vision.*", "vlm.layer=-1"}));
  const plan::GradientFlow flow = plan::gradient_flow(spec.program);
  for (std::size_t n = 0; n < spec.program.nodes.size(); ++n) {
    const std::string& name = spec.program.nodes[n].name;
    EXPECT_EQ(flow.node_has_backward[n], !name.starts_with("vision.")) << name;
  }
  // Gradients reach the projector through a decoder that does not train.
  const ModelSpec stage1 = describe(vlm_job({"model.frozen=vision.*,embed,newline,block.*,head"}));
  const plan::GradientFlow through = plan::gradient_flow(stage1.program);
  for (std::size_t n = 0; n < stage1.program.nodes.size(); ++n)
    EXPECT_EQ(through.node_has_backward[n], !stage1.program.nodes[n].name.starts_with("vision."));
}

// Those of rank 16 on the decoder of Qwen3-VL 2B; what is before the first of them has no backward.
TEST(VlmSpec, AdaptersAreOfTheDecoderAlone) {
  config::Job job = config::load_job(Path(TRIREME_SOURCE_DIR) / "recipes" / "qwen3_vl_2b.yaml");
  job.lora.rank = 16;
  const ModelSpec spec = describe(config::resolve(job, 1, {}));
  std::int64_t trained = 0;
  for (const plan::Unit& unit : spec.program.units)
    if (unit.trainable) trained += unit.numel;
  EXPECT_EQ(trained, 17'432'576);
  const plan::GradientFlow flow = plan::gradient_flow(spec.program);
  for (std::size_t n = 0; n < spec.program.nodes.size(); ++n) {
    const std::string& name = spec.program.nodes[n].name;
    const bool decodes = name.starts_with("block.") || name.starts_with("seen.") || name == "head";
    EXPECT_EQ(flow.node_has_backward[n], decodes) << name;
    EXPECT_EQ(spec.adapted[n].size(), name.starts_with("block.") ? 7U : 0U) << name;
  }
}

}  // namespace
}  // namespace trireme::model::vlm_test
