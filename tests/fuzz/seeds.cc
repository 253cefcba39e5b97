#include "tests/fuzz/seeds.h"

#include <nlohmann/json.hpp>
#include <span>

#include "tests/data/media/exif_files.h"
#include "tests/data/text/tokenizer_files.h"
#include "tests/harness/examples.h"
#include "tests/harness/scratch_directory.h"
#include "tests/harness/write_safetensors.h"
#include "trireme/base/fs.h"
#include "trireme/base/json.h"
#include "trireme/checkpoint/convert/hugging_face.h"
#include "trireme/checkpoint/convert/preprocessor.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/data/media/image.h"
#include "trireme/data/media/tar.h"
#include "trireme/data/media/tar_header.h"
#include "trireme/data/media/video.h"
#include "trireme/data/text/dataset.h"
#include "trireme/data/text/dataset_files.h"
#include "trireme/data/text/token_file.h"
#include "trireme/data/text/tokenizer.h"
#include "trireme/data/text/tokenizer/byte_level.h"
#include "trireme/formats/event.h"
#include "trireme/formats/manifest.h"
#include "trireme/formats/safetensors.h"
#include "trireme/launch/elastic/frame.h"
#include "trireme/launch/elastic/messages.h"
#include "trireme/plan/passes/compile.h"
#include "trireme/plan/plan.h"
#include "trireme/plan/schedules/csv.h"
#include "trireme/plan/schedules/schedule.h"

namespace trireme::fuzz {
namespace {

using Seeds = std::vector<std::string>;

std::string manifest() {
  formats::Manifest manifest{.step = 40,
                             .world = 4,
                             .layout = {{"dp_shard", 2}, {"tp", 2}},
                             .consumed_samples = 320,
                             .dataset_digest = "00ff",
                             .eval_loss = 3.25,
                             .job = "run:\n  steps: 80\n",
                             .train_state = R"({"updates":40})",
                             .build = "0.1.0"};
  for (int rank = 0; rank < 2; ++rank) {
    const std::string file = "rank-" + std::to_string(rank) + ".safetensors";
    manifest.files.push_back({.name = file, .size = (1 << 20) + 1, .hash = 7, .blocks = {8, 9}});
    formats::ManifestUnit unit{.name = "block.0", .numel = 9, .tp_rank = rank, .tp = 2};
    unit.parameters = {{.name = "w", .shape = {2, 3}, .offset = 0},
                       {.name = "b", .shape = {3}, .offset = 6}};
    unit.slices = {{file, "param", "param", 0, 5},
                   {file, "param.1", "param", 5, 4},
                   {file, "scale", "scale", 0, 3, 4}};
    manifest.units.push_back(unit);
  }
  return print(manifest);
}

Seeds safetensors() {
  const harness::ScratchDirectory scratch;
  const std::vector<std::byte> bytes(256, std::byte{1});
  const std::span<const std::byte> all(bytes);
  harness::write_safetensors(
      scratch / "a",
      std::vector<formats::Tensor>{
          {.name = "weight", .dtype = DType::kF32, .shape = {2, 3}, .bytes = all.first(24)},
          {.name = "bias", .dtype = DType::kBF16, .shape = {3}, .bytes = all.first(6)},
          {.name = "empty", .dtype = DType::kU8, .shape = {0, 5}, .bytes = {}},
          {.name = "scalar", .dtype = DType::kF64, .shape = {}, .bytes = all.first(8)}},
      {{"step", "40"}, {"format", "pt"}});
  harness::write_safetensors(scratch / "b", {}, {});
  return {read_file(scratch / "a"), read_file(scratch / "b")};
}

Seeds token_files() {
  const harness::ScratchDirectory scratch;
  Seeds seeds;
  for (const DType type : {DType::kU8, DType::kU16, DType::kI32}) {
    const Path prefix = scratch / name(type);
    text::TokenFileWriter writer(prefix, type);
    writer.add_document(std::vector<std::int32_t>{1, 2, 3, 4, 5});
    writer.add_document({});
    writer.add_document(std::vector<std::int32_t>{255, 0});
    writer.finish();
    const std::string bin = read_file(prefix.string() + ".bin");
    seeds.push_back(std::string{static_cast<char>(bin.size()), '\0'} +
                    read_file(prefix.string() + ".idx") + bin);
  }
  return seeds;
}

std::string dataset() {
  text::DatasetRecord record{.tokenizer_kind = "bytes", .vocab_size = 256};
  record.train = {.documents = 3, .tokens = 100, .text_bytes = 100};
  record.files.resize(text::kTextFiles);
  record.files[0] = {.size = 100, .hash = 5, .mib_hashes = {}};
  return print(record);
}

Seeds chats() {
  return {
      R"({"messages": [{"role": "user", "content": "a"},)"
      R"({"role": "assistant", "content": "b"}]})",
      R"({"prompt": "a", "completion": [{"role": "assistant", "content": "</think>"}]})",
      R"({"prompt": "a", "chosen": "b", "rejected": "c"})",
      R"({"prompt": "a", "completion": "b", "label": true})",
      R"({"prompt": "a", "completions": ["b", "c"], "rewards": [1, 0], "logprobs": [[-1], [-2]]})",
      R"({"prompt_ids": [1], "completion_ids": [2, 3], "reward": 0.5, "group": "x"})",
      "llama3.2 date=2026-03-09 long=split special=forbid"};
}

Json byte_level_file(const Json& pre_tokenizer, const Json& normalizer) {
  Json vocab = Json::object();
  for (int byte = 0; byte < 256; ++byte)
    vocab[text::byte_level_spelling(std::string(1, static_cast<char>(byte)))] = byte;
  vocab["th"] = 256;
  vocab["the"] = 257;
  return {{"added_tokens",
           {{{"id", 258},
             {"content", "<|end|>"},
             {"single_word", false},
             {"lstrip", true},
             {"rstrip", false},
             {"normalized", false}}}},
          {"normalizer", normalizer},
          {"pre_tokenizer", pre_tokenizer},
          {"decoder", {{"type", "ByteLevel"}}},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"ignore_merges", false},
            {"vocab", vocab},
            {"merges", {"t h", {"th", "e"}}}}}};
}

// Files of every other kind.
Seeds other_tokenizers() {
  const auto type = [](const char* name) { return Json{{"type", name}}; };
  const Json replace{
      {"type", "Replace"}, {"pattern", {{"Regex", R"(\s+)"}}}, {"content", "\xE2\x96\x81"}};
  const Json strip{{"type", "Strip"}, {"strip_left", true}, {"strip_right", true}};
  const Json normalizers = Json::array({type("NFKC"), type("Lowercase"), strip, replace});
  const Json metaspace{{"type", "Metaspace"},
                       {"replacement", "\xE2\x96\x81"},
                       {"prepend_scheme", "first"},
                       {"split", true}};
  const Json decoders = Json::array({type("ByteFallback"), type("Fuse")});
  Json unigram{{"type", "Unigram"}, {"unk_id", 0}, {"vocab", Json::array()}};
  for (const char* text : {"<unk>", "a", "\xE2\x96\x81", "the"})
    unigram["vocab"].push_back(Json::array({text, -1.5}));
  const Json word_piece{{"type", "WordPiece"},
                        {"unk_token", "[UNK]"},
                        {"continuing_subword_prefix", "##"},
                        {"max_input_chars_per_word", 9},
                        {"vocab", {{"[UNK]", 0}, {"the", 1}, {"##a", 2}}}};
  const std::string pieces = text::proto_piece("a", -1, 1) +
                             text::proto_piece("\xE2\x96\x81", -2, 1) +
                             text::proto_piece("the", 0, 4) + text::proto_piece("oa", -1, 5);
  const std::string model = text::piece_model(pieces, {.model_type = 2, .byte_fallback = true});
  return {text::tokenizer_file(text::character_bpe(true, true),
                               {{"type", "Sequence"}, {"normalizers", normalizers}}, metaspace,
                               {{"type", "Sequence"}, {"decoders", decoders}})
              .dump(),
          text::tokenizer_file(unigram, nullptr, type("Whitespace"), metaspace).dump(),
          text::tokenizer_file(word_piece, nullptr, type("BertPreTokenizer")).dump(),
          model,
          text::piece_model(pieces, {}),
          text::Tokenizer::sentencepiece(model, "seed").description()};
}

Seeds tokenizers() {
  const Json bytes{{"type", "ByteLevel"}, {"add_prefix_space", true}, {"use_regex", true}};
  const Json last{{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  const Json split{{"type", "Split"},
                   {"pattern", {{"Regex", R"((?i:'s|'t)|\p{L}+|\p{N}{1,3}|\s+(?!\S)|\s+)"}}},
                   {"behavior", "Isolated"},
                   {"invert", false}};
  const Json digits{{"type", "Digits"}, {"individual_digits", true}};
  const std::string plain = byte_level_file(bytes, nullptr).dump();
  Seeds all = other_tokenizers();
  const Seeds byte_level = {
      plain,
      byte_level_file({{"type", "Sequence"}, {"pretokenizers", {split, digits, last}}},
                      {{"type", "Sequence"}, {"normalizers", {{{"type", "NFKC"}}}}})
          .dump(),
      text::Tokenizer::bytes().description(), text::Tokenizer::chars("abc \xC3\xA9").description(),
      text::Tokenizer::hugging_face(plain, "seed").description()};
  all.insert(all.end(), byte_level.begin(), byte_level.end());
  return all;
}

Seeds jobs() {
  config::Job wide;
  wide.model = {.family = config::Family::kLlama, .layers = 4, .kv_heads = 2, .tied = false};
  wide.parallel = {.pp = 2, .schedule = "zb_h1", .dp_shard = 2, .tp = 2, .zero = 1};
  wide.precision.compute = DType::kBF16;
  wide.run.memory_limit = {1 << 30};
  const std::string flow = R"({"model": {"layers": 2, "hidden": 64}, "run": {"steps": 1e2}})";
  return {config::print_yaml({}), print_yaml(wide),
          print_yaml(config::resolve({}, 4, {.vocab = 256})), flow,
          "model:\n  layers: 12  # blocks\n  norm_eps: 1e-5\noptim: {betas: [0.9, 0.95]}\n"};
}

std::string sample_messages(int kind) {
  const elastic::Outcome outcome{.exit_code = 4, .rank = 1, .cause = "killed", .signal = 9};
  if (kind == 0)
    return encode(elastic::Report{
        .host = 1, .sequence = 2, .name = "a", .run_id = "b", .slots = 4, .outcome = outcome});
  if (kind == 1)
    return encode(elastic::Order{
        .host = 1, .assignment = {.generation = 1, .world = 4, .hosts = 2}, .outcome = outcome});
  if (kind == 2) return encode(elastic::StoreReply{.id = 7, .number = -1, .value = "v"});
  return encode(elastic::StoreRequest{.id = 7,
                                      .generation = 1,
                                      .kind = static_cast<elastic::StoreRequest::Kind>(kind - 3),
                                      .key = "k",
                                      .value = "1",
                                      .expected = "2",
                                      .amount = 3});
}

Seeds messages() {
  Seeds seeds;
  for (int kind = 0; kind < 11; ++kind) seeds.push_back(sample_messages(kind));
  elastic::Silence silence{.host = 1, .generation = 2};
  elastic::Silence::Rank& rank = silence.ranks.emplace_back();
  rank.state.operations = {{"dp", {0, 1}, "all_reduce", 3, 4096, -1}};
  rank.state.reached = {{"dp", {0, 1}, 4}};
  rank.details = "lines\n";
  seeds.push_back(encode(silence));
  return seeds;
}

// Both sides of one that succeeds.
Seeds handshakes() {
  using elastic::Session;
  const auto nobody = [](const std::string&) {};
  const elastic::Sessions sessions("another token");
  Session server = sessions.accept(), client = sessions.connect(elastic::Caller::kRank);
  const std::string hello = client.greeting();
  const std::string answer = server.receive(hello, nobody);
  const std::string last = client.receive(answer, nobody);
  server.receive(last, nobody);
  return {answer + server.seal("frame"), hello + last + client.seal("frame")};
}

Seeds plans() {
  const auto plan = [](const plan::Program& program, const mesh::Degrees& degrees,
                       const plan::Recipe& recipe) {
    return print(plan::compile(program, mesh::Mesh(degrees), recipe));
  };
  return {plan(harness::chain_example(), {}, {}),
          plan(harness::chain_example(), {.dp_shard = 2}, {.zero = 3, .micro_batches = 2}),
          plan(harness::tied_example(2), {.pp = 2, .dp_replicate = 2}, {.micro_batches = 2}),
          plan(harness::spread_example(), {.cp = 2, .tp = 2}, {.zero = 1, .micro_batches = 1})};
}

Seeds schedules() {
  namespace s = schedules;
  Seeds seeds;
  for (const auto schedule : {s::Schedule::k1F1B, s::Schedule::kInterleaved, s::Schedule::kZbV}) {
    const s::Grid grid = s::make_grid(
        schedule, {.ranks = 2, .chunks = s::chunks_of(schedule, 0), .micro_batches = 4});
    seeds.push_back(compute_csv(grid));
    seeds.push_back(lowered_csv(grid));
  }
  return seeds;
}

std::string costs() {
  Json nodes = Json::object();
  for (const plan::Node& node : harness::chain_example().nodes)
    nodes[node.name] = {{"forward", 0.5}, {"input", 1}, {"weight", 1e-3}};
  return Json{{"nodes", nodes}}.dump(1);
}

std::string model_config(config::Family family, const std::vector<std::string>& sets) {
  config::Job job;
  job.model = {.family = family, .kv_heads = 2, .ffn = 128, .vocab = 256};
  job.vision.ffn = 64;
  for (const std::string& set : sets) config::apply_set(job, set);
  return convert::hugging_face_config(job);
}

Seeds hugging_face() {
  return {model_config(config::Family::kGpt, {}),
          model_config(config::Family::kLlama, {}),
          model_config(config::Family::kVit, {"vision.pooling=class", "vision.classes=3"}),
          model_config(config::Family::kClip, {"vision.pooling=class", "vision.pre_norm=true"}),
          model_config(config::Family::kJepa, {"vision.positions=rotary_compat"}),
          convert::preprocessor_config(config::Job{.model = {.family = config::Family::kVlm}}),
          R"({"metadata": {"total_size": 8}, "weight_map": {"a": "model-1.safetensors"}})"};
}

Seeds tars() {
  const harness::ScratchDirectory scratch;
  media::TarWriter writer(scratch / "a");
  writer.add("dir/000.jpg", "picture");
  writer.add("dir/000.seg.png", std::string(600, 'p'));
  writer.add(std::string(120, 'd') + "/001.txt", "");
  writer.finish();
  const std::string tar = read_file(scratch / "a");
  // The first member's body as a name and as records for the next.
  std::string gnu = tar, pax = tar;
  gnu[media::kType.at] = 'L';
  pax[media::kType.at] = 'x';
  pax.replace(media::kTarBlock, 7, "7 p=at\n");
  return {tar, gnu, pax};
}

Seeds photographs() {
  const media::Image image(8, 4);
  const std::string exif = media::exif_of_orientation(6);
  return {media::jpeg_with_exif(encode_jpeg(image, 90), exif),
          media::png_with_exif(encode_png(image),
                               media::exif_of_orientation(3, media::ByteOrder::kLittle)),
          media::webp_with_exif(encode_webp(std::vector{image}, 1, true), 8, 4, exif)};
}

}  // namespace

std::map<std::string, std::vector<std::string>> seeds() {
  return {{"json", {manifest(), dataset(), R"({"a": [1, -2.5e3, "\u00e9", null, true]})"}},
          {"manifest", {manifest(), print(formats::Manifest{})}},
          {"safetensors", safetensors()},
          {"token_file", token_files()},
          {"dataset", {dataset(), "documents:0.05", "bpe:1024"}},
          {"chat", chats()},
          {"tokenizer", tokenizers()},
          {"job", jobs()},
          {"setting",
           {"model.layers=4\nparallel.tp=2\noptim.betas=[0.9, 0.95]\n",
            "run.memory_limit=20GiB\nrecompute.policy=full\nrecompute.nodes=block.[0-1]",
            "parallel.pp=2\nparallel.schedule=interleaved\noffload.optimizer=host"}},
          {"handshake", handshakes()},
          {"frames", {std::string("\0", 1) + std::string(250, 'a'), "\1aaaafirst"}},
          {"messages", messages()},
          {"plan", plans()},
          {"schedule", schedules()},
          {"costs", {costs()}},
          {"hugging_face", hugging_face()},
          {"words",
           {"20GiB", "host:29500", "[::1]:80", "unix:name", "step-40", "dp_shard+tp",
            "pp1.dp_replicate1.dp_shard4.cp1.tp1", "block.[0-11],head", "block.*.lora"}},
          {"faults",
           {"rank=1 step=41 line=7: kill; rank=0 fs.fsync=3: error=EIO; rank=1 group=dp op=88: "
            "delay=300ms",
            "generation=each phase=checkpoint fs.write=5: short=50;start=links:exit=0;op-end=2 "
            "what=send:throw"}},
          {"tar", tars()},
          {"exif", photographs()},
          {"lists",
           {R"([{"id": "7", "label": "Moving a cup up", "template": "Moving [something] up"}])",
            R"({"Moving something up": "1", "Holding something": "0"})",
            "videos/a b.mp4 4\nvideos/b.mp4::11\nepisode_1\n"}},
          {"event", {"rank killed|host|step|signal 9|restarted"}},
          {"train_state",
           {R"({"updates":3,"non_finite":1})",
            R"({"updates":3,"loss_scale":{"scale":65536.0,"steps":1,)"
            R"("last_overflow":-1,"hysteresis":2}})"}}};
}

}  // namespace trireme::fuzz
