// Qwen3-VL as it is published: its keys, its numbers of parameters, and what is refused of it.
#include "tests/checkpoint/convert/broken.h"
#include "tests/checkpoint/convert/seeing_jobs.h"
#include "trireme/checkpoint/convert/preprocessor.h"
#include "trireme/model/families/describe.h"

namespace trireme::convert::qwen3_vl_test {
namespace {

// Of a tower and a decoder: hidden, layers, ffn; then tied heads, and the tower's blocks that DeepStack reads.
struct Sizes {
  std::int64_t seeing[3], writing[3];
  bool tied;
  std::vector<std::int64_t> deepstack;
  std::int64_t heads = 16;
};

Json published_config(const Sizes& sizes) {
  const auto& [seeing, writing, tied, deepstack, heads] = sizes;
  return {
      {"architectures", {"Qwen3VLForConditionalGeneration"}},
      {"model_type", "qwen3_vl"},
      {"image_token_id", 151655},
      {"video_token_id", 151656},
      {"vision_start_token_id", 151652},
      {"vision_end_token_id", 151653},
      {"tie_word_embeddings", tied},
      {"text_config",
       {{"model_type", "qwen3_vl_text"},
        {"attention_bias", false},
        {"bos_token_id", 151643},
        {"eos_token_id", 151645},
        {"head_dim", 128},
        {"hidden_act", "silu"},
        {"hidden_size", writing[0]},
        {"intermediate_size", writing[2]},
        {"max_position_embeddings", 262144},
        {"num_attention_heads", heads},
        {"num_hidden_layers", writing[1]},
        {"num_key_value_heads", 8},
        {"rms_norm_eps", 1e-6},
        {"rope_scaling",
         {{"mrope_interleaved", true}, {"mrope_section", {24, 20, 20}}, {"rope_type", "default"}}},
        {"rope_theta", 5000000},
        {"vocab_size", 151936}}},
      {"vision_config",
       {{"model_type", "qwen3_vl"},
        {"deepstack_visual_indexes", deepstack},
        {"depth", seeing[1]},
        {"hidden_act", "gelu_pytorch_tanh"},
        {"hidden_size", seeing[0]},
        {"in_channels", 3},
        {"intermediate_size", seeing[2]},
        {"num_heads", 16},
        {"num_position_embeddings", 2304},
        {"out_hidden_size", writing[0]},
        {"patch_size", 16},
        {"spatial_merge_size", 2},
        {"temporal_patch_size", 2}}}};
}

config::Job read(const Json& config) {
  return config::resolve(job_of_config(config.dump(), kConfig), 1, {});
}

const Sizes k2b = {{1024, 24, 4096}, {2048, 28, 6144}, true, {5, 11, 17}};

TEST(Qwen3Vl, PublishedFilesHaveTheirParameters) {
  const struct {
    Sizes sizes;
    std::int64_t tower, decoder;
  } models[] = {
      {k2b, 406'957'056, 1'720'574'976},
      {{{1024, 24, 4096}, {2560, 36, 9728}, true, {5, 11, 17}, 32}, 415'347'712, 4'022'468'096},
      {{{1152, 27, 4304}, {4096, 36, 12288}, false, {8, 16, 24}, 32}, 576'388'336, 8'190'735'360}};
  for (const auto& [sizes, tower, decoder] : models) {
    const config::Job job = read(published_config(sizes));
    std::int64_t seeing = 0;
    const model::ModelSpec spec = model::describe(job);
    for (const model::UnitSpec& unit : spec.units)
      for (const char* part : {"vision.", "projector", "deepstack."})
        if (unit.name.starts_with(part)) seeing += unit.numel();
    EXPECT_EQ(seeing, tower);
    EXPECT_EQ(spec.parameters() - seeing, decoder);
  }
}

TEST(Qwen3Vl, ThePublishedFileSaysWhatTheRecipeSays) {
  const config::Job job = read(published_config(k2b));
  const config::Job recipe = config::resolve(
      config::load_job(Path(TRIREME_SOURCE_DIR) / "recipes" / "qwen3_vl_2b.yaml"), 1, {});
  EXPECT_EQ(job.projector, recipe.projector);
  EXPECT_EQ(job.vlm.deepstack, recipe.vlm.deepstack);
  EXPECT_EQ(job.vlm.mrope, recipe.vlm.mrope);
  EXPECT_EQ(job.vlm.tokens, (std::array<std::int64_t, 2>{151655, 151645}));
  EXPECT_EQ(job.model.rope_theta, 5e6);
  config::Vision vision = recipe.vision;
  vision.pixels = job.vision.pixels;  // the recipe leaves them at those of its family, the same
  EXPECT_EQ(job.vision, vision);
  EXPECT_EQ(job.vision.image, 768) << "as many tokens as the table has places";
}

TEST(Qwen3Vl, FilesOfNewerReleasesSayTheSame) {
  Json json = published_config(k2b);
  const config::Job before = read(json);
  Json& text = json["text_config"];
  text.erase("rope_scaling");
  text.erase("rope_theta");
  text["rope_parameters"] = {
      {"mrope_section", {24, 20, 20}}, {"rope_theta", 5e6}, {"rope_type", "default"}};
  EXPECT_EQ(read(json), before);
  text.erase("rope_parameters");
  EXPECT_EQ(read(json), before) << "of the class";
}

// Limits are areas; an image is a square here.
TEST(Qwen3Vl, TilesAreSquaresWithinTheLimitsOfTheFile) {
  const auto side = [](const Json& limits) {
    config::Job job = read(published_config(k2b));
    read_preprocessor(limits.dump(), "p", job);
    return job.vision.image;
  };
  EXPECT_EQ(side({{"size", {{"shortest_edge", 65536}, {"longest_edge", 16777216}}}}), 768);
  EXPECT_EQ(side({{"size", {{"shortest_edge", 65536}, {"longest_edge", 262144}}}}), 512);
  EXPECT_EQ(side({{"min_pixels", 1048576}, {"max_pixels", 16777216}}), 1024);
  EXPECT_EQ(side({{"size", {{"shortest_edge", 102400}, {"longest_edge", 102400}}}}), 320);
  config::Job job = read(published_config(k2b));
  job.vision.image = 320;
  const Json written = Json::parse(preprocessor_config(job));
  EXPECT_EQ(written.at("image_processor_type"), "Qwen2VLImageProcessorFast");
  EXPECT_EQ(written.at("size"), (Json{{"shortest_edge", 102400}, {"longest_edge", 102400}}));
  EXPECT_EQ(written.at("patch_size"), 16);
  EXPECT_EQ(written.at("merge_size"), 2);
  EXPECT_EQ(written.at("temporal_patch_size"), 2);
  EXPECT_EQ(side(written), 320);
}

Files small(const std::string&) { return published(qwen3_vl()); }

Damage in_config(const char* at, const Json& value) { return set(kConfig, at, value); }

TEST(Qwen3Vl, BrokenTowersAreRefusedInOneLine) {
  const char* pixels = "preprocessor_config.json";
  const Broken cases[] = {
      {"table",
       "",
       in_config("/vision_config/num_position_embeddings", 15),
       {kConfig, "vision_config", "num_position_embeddings", "15", "square"}},
      {"merge",
       "",
       in_config("/vision_config/spatial_merge_size", 4),
       {kConfig, "vision_config", "spatial_merge_size", "4", "2"}},
      {"heads",
       "",
       in_config("/vision_config/num_heads", 5),
       {kConfig, "hidden_size", "24", "num_heads", "5"}},
      {"rotary heads", "", in_config("/vision_config/num_heads", 4), {kConfig, "vision.heads"}},
      {"output",
       "",
       in_config("/vision_config/out_hidden_size", 48),
       {kConfig, "out_hidden_size", "48", "24"}},
      {"deepstack",
       "",
       in_config("/vision_config/deepstack_visual_indexes", {0, 9}),
       {kConfig, "vlm.deepstack", "0,9"}},
      {"deepstack is text",
       "",
       in_config("/vision_config/deepstack_visual_indexes", {"0"}),
       {kConfig, "deepstack_visual_indexes"}},
      {"no tower", "", in_config("/vision_config", 3), {kConfig, "vision_config"}},
      {"patches without time",
       "",
       header(kModel,
              [](Json& json) {
                json["model.visual.patch_embed.proj.weight"]["shape"] = {24, 6, 2, 2};
              }),
       {kModel, "model.visual.patch_embed.proj.weight", "[24, 6, 2, 2]", "[24, 3, 2, 2, 2]"}},
      {"other patches", "", put(pixels, R"({"patch_size": 14})"), {pixels, "patch_size", "14"}},
      {"no square",
       "",
       put(pixels, R"({"size": {"shortest_edge": 20, "longest_edge": 30}})"),
       {pixels, "size", "20 to 30"}},
      {"side is text",
       "",
       put(pixels, R"({"size": {"shortest_edge": "20"}})"),
       {pixels, "shortest_edge"}},
  };
  expect_refusals(cases, small);
}

TEST(Qwen3Vl, BrokenDecodersAreRefusedInOneLine) {
  const Broken cases[] = {
      {"mark",
       "",
       in_config("/vision_start_token_id", 7),
       {kConfig, "vision_start_token_id", "7", "151652"}},
      {"tower",
       "",
       in_config("/vision_config/model_type", "qwen2_vl"),
       {kConfig, "vision_config", "model_type", "qwen2_vl", "qwen3_vl"}},
      {"decoder",
       "",
       in_config("/text_config/model_type", "qwen2"),
       {kConfig, "text_config", "model_type", "qwen2", "qwen3_vl_text"}},
      {"sections",
       "",
       in_config("/text_config/rope_scaling/mrope_section", {1, 1}),
       {kConfig, "mrope_section", "2 numbers", "needs 3"}},
      {"more sections",
       "",
       in_config("/text_config/rope_scaling/mrope_section", {2, 1, 1}),
       {kConfig, "vlm.mrope"}},
      {"order",
       "",
       in_config("/text_config/rope_scaling/mrope_interleaved", false),
       {kConfig, "mrope_interleaved", "false"}},
  };
  expect_refusals(cases, small);
}

// What such a config.json cannot say is named with its key.
TEST(Qwen3Vl, JobsOfOtherModelsAreNotWritten) {
  const config::Job job = read(published_config(k2b));
  hugging_face_config(job);
  const auto refusal = [&](const std::string& set) {
    config::Job other = job;
    config::apply_set(other, set);
    return formats::refusal([&] { hugging_face_config(other); }, ErrorKind::kUsage);
  };
  for (const char* set :
       {"vlm.mrope=24,20,20", "vlm.layer=3", "vlm.max_tiles=4", "vlm.fit=pad",
        "vision.position_grid=0", "vision.norm_eps=1e-5", "model.qk_norm=false", "vision.frames=4"})
    EXPECT_THAT(refusal(set),
                testing::HasSubstr(std::string(set).substr(0, std::string(set).find('='))))
        << set;
}

}  // namespace
}  // namespace trireme::convert::qwen3_vl_test
