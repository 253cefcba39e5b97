#include "tests/harness/examples.h"

#include <algorithm>

#include "trireme/base/error.h"

namespace trireme::harness {
namespace {

using plan::NodeId;
using plan::Program;
using plan::UnitId;
using plan::ValueId;

constexpr std::int64_t kActivation = 8192;  // bytes of every value
constexpr std::int64_t kBlock = 49152;      // elements of a block's unit
constexpr std::int64_t kEmbedding = 16384;

ValueId input(Program& program, const std::string& name) {
  program.values.push_back({.name = name, .bytes = 512, .differentiable = false});
  return static_cast<ValueId>(program.values.size()) - 1;
}

UnitId unit(Program& program, const std::string& name, std::int64_t numel) {
  program.units.push_back({.name = name, .numel = numel});
  return static_cast<UnitId>(program.units.size()) - 1;
}

// Adds a node that writes one value, named after it with ".out"; a loss writes one number.
ValueId node(Program& program, plan::Node node) {
  std::int64_t numel = 0;
  for (UnitId unit : node.units) numel += program.units[unit].numel;
  node.saved_bytes = 4 * kActivation;
  node.flops = 2.0 * 64 * static_cast<double>(numel);
  program.values.push_back({.name = node.name + ".out", .bytes = node.loss ? 4 : kActivation});
  const ValueId out = static_cast<ValueId>(program.values.size()) - 1;
  node.writes = {out};
  program.nodes.push_back(std::move(node));
  return out;
}

// embed on the first stage, blocks spread evenly, the loss on the last.
Program language_model(std::string name, int stages, int blocks, bool tied) {
  Program program{.name = std::move(name)};
  const ValueId tokens = input(program, "tokens");
  const ValueId targets = input(program, "targets");
  const UnitId embedding = unit(program, "embed", kEmbedding);
  ValueId x =
      node(program, {.name = "embed", .reads = {tokens}, .units = {embedding}, .looks_up = tied});
  for (int b = 0; b < blocks; ++b) {
    const std::string block = fmt::format("block{}", b);
    const UnitId weights = unit(program, block, kBlock);
    x = node(program,
             {.name = block, .reads = {x}, .units = {weights}, .stage = b * stages / blocks});
  }
  const UnitId norm = unit(program, "norm", 128);
  const UnitId head = tied ? embedding : unit(program, "head", kEmbedding);
  node(program, {.name = "loss",
                 .reads = {x, targets},
                 .units = {norm, head},
                 .loss = true,
                 .stage = stages - 1});
  return program;
}

}  // namespace

Program chain_example(int blocks) { return language_model("chain", 1, blocks, false); }

Program spread_example(int blocks) {
  using plan::Exchange;
  Program program = language_model("spread", 1, blocks, /*tied=*/false);
  for (plan::Node& node : program.nodes) {
    if (node.reads.size() > 1 || node.name == "embed") continue;
    node.exchanges = {{Exchange::kSendRecv, mesh::Axis::kCp, kActivation / 2, 1, 3},
                      {Exchange::kAllGather, mesh::Axis::kTp, kActivation, 2, 4},
                      {Exchange::kReduceScatter, mesh::Axis::kTp, kActivation, 2, 2}};
    program.units[node.units[0]].tp_partial = 256;
  }
  return program;
}

Program tied_example(int stages, int blocks) {
  TRIREME_CHECK(stages <= blocks, "{} stages for {} blocks", stages, blocks);
  return language_model(fmt::format("tied{}", stages), stages, blocks, true);
}

Program vision_language_example(int stages) {
  Program program{.name = fmt::format("vision_language{}", stages)};
  const ValueId pixels = input(program, "pixels");
  const ValueId text = input(program, "text");
  const ValueId targets = input(program, "targets");
  const UnitId encoder0 = unit(program, "encoder0", kBlock);
  const UnitId encoder1 = unit(program, "encoder1", kBlock);
  program.units[encoder0].trainable = program.units[encoder1].trainable = false;
  const UnitId projector = unit(program, "projector", 8192);
  const UnitId embedding = unit(program, "embed", kEmbedding);
  ValueId image = node(program, {.name = "encoder0", .reads = {pixels}, .units = {encoder0}});
  image = node(program, {.name = "encoder1", .reads = {image}, .units = {encoder1}});
  image = node(program, {.name = "project", .reads = {image}, .units = {projector}});
  const ValueId words = node(program, {.name = "embed", .reads = {text}, .units = {embedding}});
  ValueId x = node(program, {.name = "merge", .reads = {image, words, text}, .units = {}});
  for (int b = 0; b < 2; ++b) {
    const std::string block = fmt::format("block{}", b);
    const UnitId weights = unit(program, block, kBlock);
    x = node(program, {.name = block, .reads = {x}, .units = {weights}, .stage = stages - 1});
  }
  node(program, {.name = "loss",
                 .reads = {x, targets},
                 .units = {embedding},
                 .loss = true,
                 .stage = stages - 1});
  return program;
}

Program jepa_example() {
  Program program{.name = "jepa"};
  const ValueId context = input(program, "context");
  const ValueId positions = input(program, "positions");
  const ValueId local = input(program, "local_view");
  const ValueId whole = input(program, "whole_view");
  const UnitId student0 = unit(program, "student0", kBlock);
  const UnitId student1 = unit(program, "student1", kBlock);
  const UnitId predictor = unit(program, "predictor", kEmbedding);
  const auto student = [&](const std::string& pass, ValueId from) {
    const ValueId low = node(program, {.name = pass + "0", .reads = {from}, .units = {student0}});
    return node(program, {.name = pass + "1", .reads = {low}, .units = {student1}});
  };
  const ValueId seen = student("context", context);
  const ValueId view = student("local", local);
  ValueId target = whole;
  for (int b = 0; b < 2; ++b) {
    const UnitId teacher = unit(program, fmt::format("teacher{}", b), kBlock);
    program.units[teacher].trainable = false;
    program.units[teacher].ema_of = b == 0 ? student0 : student1;
    target = node(program, {.name = fmt::format("target{}", b),
                            .reads = {target},
                            .units = {teacher},
                            .no_grad = true});
  }
  const ValueId guess =
      node(program, {.name = "predict", .reads = {seen, positions}, .units = {predictor}});
  node(program, {.name = "loss", .reads = {guess, view, target}, .units = {}, .loss = true});
  return program;
}

Program two_towers_example(int stages) {
  Program program{.name = fmt::format("two_towers{}", stages)};
  const ValueId images = input(program, "images");
  const ValueId captions = input(program, "captions");
  const UnitId see = unit(program, "see", kBlock);
  const UnitId read = unit(program, "read", kBlock);
  const UnitId scale = unit(program, "scale", 1);
  const UnitId head = unit(program, "head", kEmbedding);
  const int last = stages - 1;
  const ValueId seen = node(program, {.name = "see", .reads = {images}, .units = {see}});
  const ValueId meant =
      node(program, {.name = "read", .reads = {captions}, .units = {read}, .stage = last});
  node(program, {.name = "contrast",
                 .reads = {seen, meant},
                 .units = {scale},
                 .loss = true,
                 .joint = true,
                 .stage = last});
  node(program,
       {.name = "classify", .reads = {seen}, .units = {head}, .loss = true, .stage = last});
  return program;
}

Program encoder_decoder_example(int stages) {
  Program program{.name = fmt::format("encoder_decoder{}", stages)};
  const ValueId source = input(program, "source");
  const ValueId targets = input(program, "targets");
  std::vector<ValueId> skips = {source};
  for (int level = 0; level < 3; ++level) {
    const std::string down = fmt::format("down{}", level);
    const UnitId weights = unit(program, down, kBlock);
    skips.push_back(node(program, {.name = down, .reads = {skips.back()}, .units = {weights}}));
  }
  ValueId x = skips.back();
  for (int level = 2; level >= 0; --level) {
    const std::string up = fmt::format("up{}", level);
    const UnitId weights = unit(program, up, kBlock);
    std::vector<ValueId> reads = {x};
    if (skips[level] != x && level > 0) reads.push_back(skips[level]);
    x = node(program, {.name = up, .reads = reads, .units = {weights}, .stage = stages - 1});
  }
  const UnitId head = unit(program, "head", kEmbedding);
  node(program,
       {.name = "loss", .reads = {x, targets}, .units = {head}, .loss = true, .stage = stages - 1});
  return program;
}

}  // namespace trireme::harness
