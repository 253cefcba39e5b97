// Ways to break a published directory, and what a refusal must say.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "tests/checkpoint/convert/published_directory.h"
#include "tests/formats/scratch.h"
#include "trireme/checkpoint/convert/peft_weights.h"
#include "trireme/config/families.h"
#include "trireme/data/chat/recognise.h"

namespace trireme::convert {

using Damage = std::function<void(Files&)>;

inline Damage put(const char* file, std::string bytes) {
  return [=](Files& files) { files[file] = bytes; };
}
inline Damage drop(const char* file) {
  return [=](Files& files) { files.erase(file); };
}
inline Damage cut(const char* file, std::size_t bytes) {
  return [=](Files& files) { files.at(file).resize(files.at(file).size() - bytes); };
}
inline Damage edit(const char* file, const std::function<void(Json&)>& change) {
  return [=](Files& files) {
    Json json = Json::parse(files.at(file));
    change(json);
    files[file] = json.dump();
  };
}
// `at` is a JSON pointer.
inline Damage set(const char* file, const char* at, const Json& value) {
  return edit(file, [=](Json& json) { json[Json::json_pointer(at)] = value; });
}
inline Damage remove(const char* file, const char* key) {
  return edit(file, [=](Json& json) { json.erase(key); });
}
// Edits the header of a file of tensors.
inline Damage header(const char* file, const std::function<void(Json&)>& change) {
  return [=](Files& files) {
    Json json = header_of(files.at(file));
    change(json);
    files[file] = safetensors(json);
  };
}
inline Damage both(const Damage& first, const Damage& second) {
  return [=](Files& files) { first(files), second(files); };
}

// One way to break one kind of directory: the file that a refusal names, and what else it says.
struct Broken {
  const char* way;
  const char* type;
  Damage damage;
  std::vector<std::string> says;
};

inline void write(const Files& files, const Path& directory) {
  std::filesystem::create_directories(directory);
  for (const auto& [name, bytes] : files)
    std::ofstream(directory / name, std::ios::binary) << bytes;
}

// Reads all of a model as `trireme checkpoint convert` does, and the chat template that `trireme finetune` needs.
inline void convert_all(const Path& from, const Path& out) {
  const auto convert = [&](const auto& weights, const Path& model) {
    const config::Job& job = weights.job();
    const auto tokenizer = vocabulary_of_weights(model, job);
    if (config::info(job).packs_conversations) chat::template_of_model(model, "data.chat");
    write_weights(
        job, weights.model(), [&](const model::ParamSpec& param) { return weights.read(param); },
        tokenizer ? tokenizer->digest() : "", "test", out);
  };
  if (is_peft(from)) {
    const PeftWeights weights(from);
    return convert(weights, weights.base());
  }
  convert(HuggingFaceWeights(from), from);
}

// One line for people: no text of a library's exception, no control characters.
inline void expect_clear(const std::string& message) {
  EXPECT_LT(message.size(), 700U) << message;
  for (const char c : message)
    EXPECT_TRUE(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f) << message;
  for (const char* raw : {"json.exception", "std::", "bad_alloc", "YAML", "yaml", "basic_string",
                          "filesystem error", "vector::"})
    EXPECT_EQ(message.find(raw), message.npos) << message;
}

// Why a directory is refused; empty: it is converted.
inline std::string refusal_of(const Path& from, const Path& out) {
  try {
    convert_all(from, out);
    return {};
  } catch (const Error& error) {
    EXPECT_TRUE(error.kind() == ErrorKind::kData || error.kind() == ErrorKind::kUsage)
        << error.what();
    return error.what();
  }
}

// Refused, and nothing written.
inline void expect_refusals(std::span<const Broken> cases,
                            const std::function<Files(const std::string&)>& good) {
  const formats::Scratch scratch;
  for (const Broken& broken : cases) {
    SCOPED_TRACE(broken.way);
    Files files = good(broken.type);
    broken.damage(files);
    const Path from = scratch / broken.way, out = scratch / "out";
    write(files, from);
    const std::string message = refusal_of(from, out);
    EXPECT_NE(message, "") << "was accepted";
    expect_clear(message);
    EXPECT_NE(message.find(from.string()), message.npos) << message;
    for (const std::string& part : broken.says) EXPECT_THAT(message, testing::HasSubstr(part));
    EXPECT_FALSE(std::filesystem::exists(out));
    std::filesystem::remove_all(out);
  }
}

}  // namespace trireme::convert
