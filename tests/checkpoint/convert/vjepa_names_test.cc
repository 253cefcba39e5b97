// V-JEPA 2's files: one encoder for student and teacher, mask tokens, and the names of published training checkpoints.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "tests/checkpoint/convert/seeds.h"
#include "tests/formats/scratch.h"
#include "trireme/base/error.h"
#include "trireme/checkpoint/convert/hugging_face.h"
#include "trireme/checkpoint/convert/state_reader.h"
#include "trireme/formats/safetensors.h"

namespace trireme::convert::vjepa_names_test {
namespace {

using config::Family;
using formats::Scratch;
using testing::HasSubstr;

class Vjepa : public testing::Test {
 protected:
  // Of the index-th the elements are 1000 * index, 1000 * index + 1 .., but the first `zeros` of the first are 0.
  static void write(const Path& directory, const std::vector<formats::TensorInfo>& infos,
                    std::int64_t zeros = 0) {
    std::filesystem::remove_all(directory);
    std::filesystem::create_directories(directory);
    std::vector<float> values;
    formats::stream_safetensors(directory / "model.safetensors", infos, {},
                                formats::TensorOrder::kOfficial, [&](std::size_t index) {
                                  std::int64_t count = 1;
                                  for (const std::int64_t size : infos[index].shape) count *= size;
                                  values.resize(static_cast<std::size_t>(count));
                                  std::iota(values.begin(), values.end(),
                                            static_cast<float>(1000 * index));
                                  if (index == 0) std::fill_n(values.begin(), zeros, 0.0F);
                                  return std::as_bytes(std::span(values));
                                });
  }
  static std::vector<float> read(const StateReader& stored, const Target& of,
                                 const std::string& name) {
    std::vector<float> values;
    for (std::size_t unit = 0; unit < of.model.units.size(); ++unit)
      for (std::size_t p = 0; p < of.model.units[unit].params.size(); ++p)
        if (of.model.units[unit].params[p].name == name) {
          const std::vector<std::byte> bytes = stored.read_whole(unit, p, {.name = "param"});
          values.resize(bytes.size() / sizeof(float));
          std::memcpy(values.data(), bytes.data(), bytes.size());
        }
    return values;
  }

  Scratch scratch_;
  Target one_ = target(Family::kJepa, 0, {});
};

// Published predictors have ten mask tokens, of which training with clips of one length knows one; the others are zeros.
TEST_F(Vjepa, TakesTheMaskTokenThatIsNotZero) {
  write_seed(one_, scratch_ / "seed");
  to_hugging_face(scratch_ / "seed/step-3", one_.job, one_.model, scratch_ / "hf");
  const formats::SafetensorsFile file(scratch_ / "hf/model.safetensors");
  std::vector<formats::TensorInfo> infos;
  for (const formats::Tensor& tensor : file.tensors()) {
    infos.push_back({tensor.name, tensor.dtype, tensor.shape});
    if (tensor.name == "predictor.embeddings.mask_tokens") std::swap(infos.back(), infos.front());
  }
  // Elements of the first tensor up to here are zeros.
  const auto taken = [&](std::int64_t zeros, const Target& to) {
    const std::string name = fmt::format("{}-of-{}", zeros, to.job.jepa.mask_tokens);
    write(scratch_ / name, infos, zeros);
    const StateReader back(from_hugging_face(HuggingFaceWeights(scratch_ / name, to.job), "", "",
                                             scratch_ / (name + "-back")),
                           to.model.units);
    std::vector<float> firsts;
    for (std::int64_t token = 0; token < to.job.jepa.mask_tokens; ++token)
      firsts.push_back(read(back, to, fmt::format("predictor.mask_tokens.{}", token)).at(0));
    return firsts;
  };
  const Target two = target(Family::kJepa, 0, {"jepa.mask_tokens=2"});
  using Firsts = std::vector<float>;
  EXPECT_EQ(taken(1, one_), Firsts{0}) << "one that is not all zeros";
  EXPECT_EQ(taken(12, one_), Firsts{12});
  EXPECT_EQ(taken(7 * 12, one_), Firsts{7 * 12});
  EXPECT_EQ(taken(10 * 12, one_), Firsts{0}) << "none is trained";
  EXPECT_EQ(taken(1, two), (Firsts{0, 12}));
  EXPECT_EQ(taken(12, two), (Firsts{12, 12})) << "for both masks";
  EXPECT_EQ(taken(5 * 12, two), (Firsts{5 * 12, 5 * 12}));
  infos.front().shape[0] = 1;
  EXPECT_EQ(taken(2, one_), Firsts{0});
  EXPECT_THAT(formats::refusal([&] { taken(0, two); }),
              HasSubstr("mask_tokens is [1, 1, 1, 12], the model of its config.json needs [2, 1"));
}

// Student and teacher each come from their own, as the published checkpoints name them; what those keep for models with
// learned positions is passed over.
TEST_F(Vjepa, ReadsThePublishedNames) {
  std::vector<formats::TensorInfo> infos;
  for (const model::UnitSpec& unit : one_.model.units)
    for (const model::ParamSpec& param : unit.params)
      infos.push_back({.name = param.name, .shape = param.shape});
  const std::size_t params = infos.size();
  for (const char* table :
       {"encoder.pos_embed", "target_encoder.pos_embed", "predictor.predictor_pos_embed"})
    infos.push_back({.name = table, .shape = {1, 32, 12}});
  infos.push_back({.name = "predictor.mask_tokens.1", .shape = {1, 1, 12}});
  write(scratch_ / "own", infos);
  const StateReader back(
      from_hugging_face(HuggingFaceWeights(scratch_ / "own", one_.job), "", "", scratch_ / "out"),
      one_.model.units);
  for (std::size_t i = 0; i < params; ++i)
    EXPECT_EQ(read(back, one_, infos[i].name).at(0), static_cast<float>(1000 * i)) << infos[i].name;
}

// Of several tensors as of one in which they are stacked.
TEST_F(Vjepa, TakesThePublishedMaskTokenThatIsNotZero) {
  std::vector<formats::TensorInfo> infos;
  for (const model::UnitSpec& unit : one_.model.units)
    for (const model::ParamSpec& param : unit.params) {
      infos.push_back({.name = param.name, .shape = param.shape});
      if (param.name == "predictor.mask_tokens.0") std::swap(infos.back(), infos.front());
    }
  infos.push_back({.name = "predictor.mask_tokens.1", .shape = {1, 1, 12}});
  write(scratch_ / "own", infos, 12);
  const StateReader back(
      from_hugging_face(HuggingFaceWeights(scratch_ / "own", one_.job), "", "", scratch_ / "out"),
      one_.model.units);
  EXPECT_EQ(read(back, one_, "predictor.mask_tokens.0").at(1),
            static_cast<float>(1000 * (infos.size() - 1) + 1));
}

TEST_F(Vjepa, LeavesOutTheStudentAndSaysSo) {
  write_seed(one_, scratch_ / "seed");
  const std::vector<std::string> left =
      to_hugging_face(scratch_ / "seed/step-3", one_.job, one_.model, scratch_ / "hf");
  EXPECT_THAT(left, testing::Each(testing::StartsWith("encoder.")));
  EXPECT_EQ(left.size(), 2 + 2 * 12 + 2);
}

}  // namespace
}  // namespace trireme::convert::vjepa_names_test
