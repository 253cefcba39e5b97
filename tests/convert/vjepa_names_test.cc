// V-JEPA 2's files: one encoder for student and teacher, mask tokens, and the names of published training checkpoints.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "tests/convert/seeds.h"
#include "tests/formats/scratch.h"
#include "trireme/base/error.h"
#include "trireme/convert/hugging_face.h"
#include "trireme/convert/state_reader.h"
#include "trireme/formats/safetensors.h"

namespace trireme::convert::vjepa_names_test {
namespace {

using config::Family;
using formats::Scratch;
using testing::HasSubstr;

class Vjepa : public testing::Test {
 protected:
  // Of the index-th the elements are 1000 * index, 1000 * index + 1 ..
  static void write(const Path& directory, const std::vector<formats::TensorInfo>& infos) {
    std::filesystem::create_directories(directory);
    std::vector<float> values;
    formats::stream_safetensors(directory / "model.safetensors", infos, {},
                                formats::TensorOrder::kOfficial, [&](std::size_t index) {
                                  std::int64_t count = 1;
                                  for (const std::int64_t size : infos[index].shape) count *= size;
                                  values.resize(static_cast<std::size_t>(count));
                                  std::iota(values.begin(), values.end(),
                                            static_cast<float>(1000 * index));
                                  return std::as_bytes(std::span(values));
                                });
  }
  std::vector<float> read(const StateReader& stored, const std::string& name) const {
    std::vector<float> values;
    for (std::size_t unit = 0; unit < one_.model.units.size(); ++unit)
      for (std::size_t p = 0; p < one_.model.units[unit].params.size(); ++p)
        if (one_.model.units[unit].params[p].name == name) {
          const std::vector<std::byte> bytes = stored.read_whole(unit, p, {.name = "param"});
          values.resize(bytes.size() / sizeof(float));
          std::memcpy(values.data(), bytes.data(), bytes.size());
        }
    return values;
  }

  Scratch scratch_;
  Target one_ = target(Family::kJepa, 0, {});
};

// Published predictors have ten, of which two kinds of masks have use for the first two.
TEST_F(Vjepa, TakesTheFirstOfMoreMaskTokens) {
  write_seed(one_, scratch_ / "seed");
  to_hugging_face(scratch_ / "seed/step-3", one_.job, one_.model, scratch_ / "hf");
  const formats::SafetensorsFile file(scratch_ / "hf/model.safetensors");
  std::vector<formats::TensorInfo> infos;
  for (const formats::Tensor& tensor : file.tensors()) {
    infos.push_back({tensor.name, tensor.dtype, tensor.shape});
    if (tensor.name == "predictor.embeddings.mask_tokens") {
      infos.back().shape[0] = 10;
      std::swap(infos.back(), infos.front());
    }
  }
  write(scratch_ / "ten", infos);
  const StateReader back(
      from_hugging_face(HuggingFaceWeights(scratch_ / "ten", one_.job), "", "", scratch_ / "out"),
      one_.model.units);
  EXPECT_EQ(read(back, "predictor.mask_tokens.0")[11], 11);
  EXPECT_EQ(read(back, "predictor.mask_tokens.1")[0], 12);
  infos.front().shape[0] = 1;
  write(scratch_ / "one", infos);
  EXPECT_THAT(formats::refusal([&] {
                from_hugging_face(HuggingFaceWeights(scratch_ / "one", one_.job), "", "",
                                  scratch_ / "no");
              }),
              HasSubstr("mask_tokens is [1, 1, 1, 12], the model of its config.json needs [2, 1"));
}

// Student and teacher each come from their own, as the published checkpoints name them.
TEST_F(Vjepa, ReadsThePublishedNames) {
  std::vector<formats::TensorInfo> infos;
  for (const arch::UnitSpec& unit : one_.model.units)
    for (const arch::ParamSpec& param : unit.params)
      infos.push_back({.name = param.name, .shape = param.shape});
  infos.push_back({.name = "predictor.mask_tokens.2", .shape = {1, 1, 12}});
  write(scratch_ / "own", infos);
  const StateReader back(
      from_hugging_face(HuggingFaceWeights(scratch_ / "own", one_.job), "", "", scratch_ / "out"),
      one_.model.units);
  for (std::size_t i = 0; i + 1 < infos.size(); ++i)
    EXPECT_EQ(read(back, infos[i].name).at(0), static_cast<float>(1000 * i)) << infos[i].name;
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
