// Broken jobs, command lines, datasets and checkpoints, as a user would meet them: exit code 2 or
// 3, one line, and nothing created or changed.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include "tests/apps/program.h"
#include "tests/harness/write_safetensors.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/data/text/dataset.h"
#include "trireme/formats/manifest.h"
#include "trireme/formats/safetensors.h"

namespace trireme::app::broken_input_test {
namespace {

using ::testing::HasSubstr;

constexpr char kGoodJob[] =
    "model: {layers: 1, hidden: 16, heads: 2, seq_len: 8}\ndata: {path: text.txt}\nrun: {steps: 4, "
    "global_batch: 4}\n";

std::string some_text() {
  std::string text;
  for (int i = 0; i < 400; ++i)
    text += "line " + std::to_string(i) + " of a text that is there to be read\n";
  return text;
}

class BrokenInput : public ::testing::Test {
 protected:
  BrokenInput() {
    desk_.write("job.yaml", kGoodJob);
    desk_.write("text.txt", some_text());
  }

  // Runs and demands the refusal; returns the line.
  std::string refused(const std::vector<std::string>& arguments, int exit_code,
                      const std::string& fragment) {
    const auto before = desk_.contents();
    const Result result = desk_.run(arguments);
    EXPECT_EQ(result.exit_code, exit_code) << ::testing::PrintToString(arguments) << result.err;
    expect_one_line(result.err);
    EXPECT_THAT(result.err, HasSubstr(fragment)) << ::testing::PrintToString(arguments);
    EXPECT_EQ(desk_.contents(), before) << ::testing::PrintToString(arguments);
    return result.err;
  }

  // A checkpoint of one tensor that fits the good job as far as `trireme` can tell.
  void write_checkpoint(const std::string& name, std::int64_t step,
                        const std::string& dataset_digest = "0123456789abcdef") {
    const Path directory = desk_ / name;
    std::filesystem::create_directories(directory);
    const config::Job job = config::resolve(config::parse_job(kGoodJob, "job"), 1, {.vocab = 256});
    const std::vector<float> values(12, 0.5f);
    const formats::Tensor tensor{.name = "u0.param",
                                 .dtype = DType::kF32,
                                 .shape = {12},
                                 .bytes = std::as_bytes(std::span(values))};
    const formats::FileDigest digest =
        harness::write_safetensors(directory / "shard-0.safetensors", std::span(&tensor, 1), {});
    formats::Manifest manifest{.step = step,
                               .dataset_digest = dataset_digest,
                               .job = config::print_yaml(job),
                               .build = "test"};
    manifest.files = {{.name = "shard-0.safetensors",
                       .size = digest.size,
                       .hash = digest.hash,
                       .blocks = digest.mib_hashes}};
    manifest.units = {{.name = "u0",
                       .numel = 12,
                       .parameters = {{.name = "w", .shape = {12}, .offset = 0}},
                       .slices = {{"shard-0.safetensors", "u0.param", "param", 0, 12}}}};
    desk_.write(name + "/" + formats::kManifestName, formats::print(manifest));
  }

  void corrupt(const std::string& name, std::size_t at) {
    std::string bytes = read_file(desk_ / name);
    bytes[at] = static_cast<char>(bytes[at] ^ 0x10);
    desk_.write(name, bytes);
  }
  void truncate(const std::string& name, std::size_t drop) {
    const std::string bytes = read_file(desk_ / name);
    desk_.write(name, bytes.substr(0, bytes.size() - drop));
  }

  Desk desk_;
};

TEST_F(BrokenInput, CommandLines) {
  struct Case {
    std::vector<std::string> arguments;
    std::string fragment;
  };
  const Case table[] = {
      {{}, "needs a command: train finetune launch links relay reduce-server islands replay"},
      {{"tarin"}, "unknown command 'tarin'"},
      {{"tarin", "--help"}, "unknown command 'tarin'"},
      {{"launch", "--", "trian", "job.yaml"}, "not trian"},
      {{"checkpoint"}, "trireme checkpoint needs a command: ls inspect verify"},
      {{"checkpoint", "destroy", "x"}, "unknown command 'destroy'"},
      {{"data"}, "needs a command"},
      {{"train"}, "which job?"},
      {{"train", "nowhere.yaml"}, "nowhere.yaml"},
      {{"train", "."}, "regular file"},
      {{"train", "job.yaml", "--rnaks", "2"}, "unknown option --rnaks"},
      {{"train", "job.yaml", "surplus"}, "unexpected argument surplus"},
      {{"train", "job.yaml", "--ranks", "two"}, "--ranks"},
      {{"train", "job.yaml", "--ranks", "0"}, "--ranks 0; needs 1 to"},
      {{"train", "job.yaml", "--ranks", "-1"}, "--ranks -1; needs 1 to"},
      {{"train", "job.yaml", "--nproc", "2147483647"}, "needs 1 to 1024"},
      {{"train", "job.yaml", "--nproc", "2147483648"}, "--nproc"},
      {{"train", "job.yaml", "--ranks", "2", "--nproc", "2"}, "exclude each other"},
      {{"train", "job.yaml", "--steps", "0"}, "--steps 0"},
      {{"train", "job.yaml", "--steps", "-3"}, "--steps -3"},
      {{"train", "job.yaml", "--steps", "1.5"}, "--steps"},
      {{"train", "job.yaml", "--set", "run.stepps=3"}, "run.steps"},
      {{"train", "job.yaml", "--set", "run.steps"}, "run.steps"},
      {{"train", "job.yaml", "--set", "=3"}, "="},
      {{"train", "job.yaml", "run.steps=many"}, "run.steps"},
      {{"train", "job.yaml", "--optim.lr=nan"}, "optim.lr"},
      {{"explain", "job.yaml", "--format", "png"}, "png"},
      {{"explain", "job.yaml", "--rank", "1"}, "ranks 0 to 0"},
      {{"explain", "job.yaml", "--rank", "-1"}, "ranks 0 to 0"},
      {{"generate", "--prompt", "x"}, "--checkpoint is required"},
      {{"generate", "--checkpoint", "x", "--prompt", "x", "--tokens", "0"}, "--tokens"},
      {{"generate", "--checkpoint", "x", "--prompt", "x", "--temperature", "-1"}, "--temperature"},
      {{"data", "prepare", "text.txt"}, "--out is required"},
      {{"data", "prepare", "text.txt", "--out", "d", "--validation", "half"}, "half"},
      {{"data", "prepare", "text.txt", "--out", "d", "--validation", "tail:1"}, "tail:1"},
      {{"data", "prepare", "text.txt", "--out", "d", "--tokenizer", "none.json"}, "none.json"},
      {{"data", "prepare", "text.txt", "--out", "text.txt"}, "not a dataset"},
  };
  for (const auto& [arguments, fragment] : table) refused(arguments, 2, fragment);
}

TEST_F(BrokenInput, Jobs) {
  const std::tuple<std::string, std::string> table[] = {
      {"modle: {layers: 1}\n", "model"},
      {"model: {layres: 1}\n", "layers"},
      {"model: {layers: two}\n", "model.layers"},
      {"model: {layers: 0}\n", "model.layers"},
      {"model: {layers: -4}\n", "model.layers"},
      {"model: {layers: 1.5}\n", "model.layers"},
      {"model: {layers: 1e99}\n", "model.layers"},
      {"model: {layers: [1]}\n", "model.layers"},
      {"model: {layers: 1, layers: 2}\n", "layers"},
      {"model: {family: bert}\n", "gpt"},
      {"model: {hidden: 65, heads: 4}\n", "model.hidden=65"},
      {"model: {family: llama, hidden: 64, heads: 4, kv_heads: 3}\n", "kv_heads"},
      {"model: {tied: maybe}\n", "model.tied"},
      {"optim: {lr: fast}\n", "optim.lr"},
      {"optim: {betas: [0.9]}\n", "optim.betas"},
      {"optim: {betas: [0.9, 1.5]}\n", "optim.betas"},
      {"optim: {min_lr: 1, lr: 0.1}\n", "min_lr"},
      {"precision: {compute: fp8}\n", "precision.compute"},
      {"parallel: {dp_shard: 3}\n", "world has 1"},
      {"parallel: {tp: 2}\n", "does not fit a world of 1"},
      {"parallel: {zero: 4}\n", "parallel.zero"},
      {"run: {global_batch: 8, micro_batch: 3}\n", "not divisible"},
      {"run: {steps: 10}\noptim: {warmup_steps: 11}\n", "warmup_steps"},
      {"model:\n\tlayers: 1\n", "job.yaml"},
      {"model: {layers: 1\n", "job.yaml"},
      {"- model\n", "job.yaml"},
      {"just words\n", "job.yaml"},
      {"model: &anchor {layers: 1}\ndata: *anchor\n", "job.yaml"},
      {"---\nmodel: {layers: 1}\n---\nmodel: {layers: 2}\n", "job.yaml"},
      {std::string(20000, '['), "job.yaml"},
      {std::string("model: {layers: 1}\n\0\n", 21), "job.yaml"},
      {"\xff\xfe\x00m", "job.yaml"},
  };
  for (const auto& [yaml, fragment] : table) {
    desk_.write("job.yaml", yaml);
    refused({"train", "job.yaml", "--out", "run"}, 2, fragment);
  }
}

TEST_F(BrokenInput, Devices) {
  const std::vector<std::vector<std::string>> commands = {
      {"train", "job.yaml", "--out", "run", "run.device=cuda", "--ranks", "2",
       "precision.numerics=fast"},
      {"bench", "step", "job.yaml", "--device", "cuda", "--ranks", "2", "precision.numerics=fast"}};
  for (const auto& command : commands)
    refused(command, 2,
            TRIREME_HAS_CUDA ? "start processes, one a GPU: --nproc 2" : "this build has no CUDA");
  refused({"diff", "job.yaml", "--layouts", "tp=2", "--set", "run.device=cuda"}, 2,
          "set run.device=cpu");
  refused({"bench", "step", "job.yaml", "--device", "tpu"}, 2, "tpu");
}

TEST_F(BrokenInput, TextAndTokenizers) {
  desk_.write("empty.txt", "");
  desk_.write("broken.txt", "\xff\xfe not UTF-8 " + some_text());
  desk_.write("tokenizer.json", "{\"model\": {\"type\": \"WordPiece\"}}");
  desk_.write("cut.json", "{\"model\": ");
  std::filesystem::create_directories(desk_ / "hollow");
  const auto with = [](std::vector<std::string> more) {
    std::vector<std::string> arguments = {"train", "job.yaml", "--out", "run"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  };
  refused(with({"data.path=nowhere"}), 3, "data.path=nowhere");
  refused(with({"data.path=empty.txt"}), 3, "empty");
  refused(with({"data.path=hollow"}), 3, "no text file");
  refused(with({"data.path=/dev/null"}), 3, "neither a file nor a directory");
  refused(with({"data.path=broken.txt", "data.tokenizer=characters"}), 3, "broken.txt");
  refused(with({"data.tokenizer=none.json"}), 2, "none.json");
  refused(with({"data.tokenizer=bpe:256"}), 2, "N from 257 to 1048576");
  refused(with({"data.tokenizer=bpe:100000"}), 2, "or less, or give more text");
  refused(with({"data.tokenizer=tokenizer.json"}), 3, "tokenizer.json");
  refused(with({"data.tokenizer=cut.json"}), 3, "cut.json");
  refused(with({"model.vocab=100"}), 2,
          "model.vocab=100 is smaller than the dataset's vocabulary of 256");
  refused({"data", "prepare", "nowhere", "--out", "d"}, 3, "nowhere");
  refused({"data", "prepare", "empty.txt", "--out", "d"}, 3, "empty");
  refused({"data", "prepare", "broken.txt", "--out", "d", "--tokenizer", "characters"}, 3,
          "broken.txt");
  refused(
      {"data", "prepare", "hollow", "text.txt", "--out", "d", "--validation", "documents:0.000001"},
      3, "leave nothing for validation");
}

TEST_F(BrokenInput, Datasets) {
  ASSERT_EQ(desk_.run({"data", "prepare", "text.txt", "--out", "good", "--validation", "tail:0.1"})
                .exit_code,
            0);
  const auto broken = [&](const std::string& name) {
    std::filesystem::copy(desk_ / "good", desk_ / name);
    return name;
  };
  const std::vector<std::string> files = {"dataset.json", "train.bin", "train.idx",
                                          "val.bin",      "val.idx",   "vocabulary.json"};
  for (const std::string& file : files) {
    const std::string cut = broken("cut-" + file), gone = broken("gone-" + file);
    truncate(cut + "/" + file, 2);
    refused({"train", "job.yaml", "--out", "run", "data.path=" + cut}, 3, cut);
    refused({"data", "verify", cut}, 3, cut);
    std::filesystem::remove(desk_ / (gone + "/" + file));
    refused({"data", "inspect", gone}, 3, gone);
  }
  for (const std::string file : {"train.idx", "vocabulary.json", "dataset.json"}) {
    const std::string name = broken(std::string("magic-") + file);
    corrupt(name + "/" + file, 0);
    refused({"train", "job.yaml", "--out", "run", "data.path=" + name}, 3, name);
  }
  const std::string flipped = broken("flipped");
  corrupt(flipped + "/train.bin", 5000);
  refused({"data", "verify", flipped}, 3, "train.bin");
  refused({"train", "job.yaml", "--out", "run", "data.path=good", "data.tokenizer=characters"}, 2,
          "was prepared with bytes");
  refused({"train", "job.yaml", "--out", "run", "data.path=good", "model.vocab=255"}, 2,
          "model.vocab=255");
  refused({"data", "prepare", "job.yaml", "--out", "good", "--validation", "tail:0.1"}, 2,
          "another dataset");
  refused({"data", "inspect", "text.txt"}, 3, "text.txt");
}

TEST_F(BrokenInput, Checkpoints) {
  const std::string file = "/shard-0.safetensors",
                    manifest = std::string("/") + formats::kManifestName;
  const auto fresh = [&](const std::string& run) {
    write_checkpoint(run + "/checkpoints/step-2", 2);
    return run + "/checkpoints/step-2";
  };
  ASSERT_EQ(desk_.run({"checkpoint", "verify", fresh("good")}).exit_code, 0);

  std::vector<std::string> damaged;
  const auto damage = [&](const std::string& run, const auto& how) {
    how(fresh(run));
    damaged.push_back(run);
  };
  damage("truncated", [&](const std::string& c) { truncate(c + file, 3); });
  damage("flipped", [&](const std::string& c) {
    corrupt(c + file, read_file(desk_ / (c + file)).size() - 2);
  });
  damage("magic", [&](const std::string& c) { corrupt(c + file, 0); });
  damage("missing-shard",
         [&](const std::string& c) { std::filesystem::remove(desk_ / (c + file)); });
  damage("missing-manifest",
         [&](const std::string& c) { std::filesystem::remove(desk_ / (c + manifest)); });
  damage("tampered", [&](const std::string& c) {
    std::string text = read_file(desk_ / (c + manifest));
    text.replace(text.find("\"step\": 2"), 9, "\"step\": 3");
    desk_.write(c + manifest, text);
  });
  damage("cut-manifest", [&](const std::string& c) { truncate(c + manifest, 40); });
  damage("empty-manifest", [&](const std::string& c) { desk_.write(c + manifest, ""); });
  damage("pickle",
         [&](const std::string& c) { desk_.write(c + file, "PK\x03\x04 not safetensors"); });
  damage("surplus", [&](const std::string& c) { desk_.write(c + "/other.safetensors", "x"); });
  for (const std::string& run : damaged) {
    refused({"checkpoint", "verify", run + "/checkpoints/step-2"}, 3, run);
    refused({"train", "job.yaml", "--out", run}, 3, run);
    refused({"train", "job.yaml", "--out", "fresh", "--resume", run + "/checkpoints/step-2"}, 3,
            run);
    refused({"generate", "--checkpoint", run, "--prompt", "x"}, 3, run);
  }
  refused({"checkpoint", "ls", "nowhere"}, 3, "nowhere");
  refused({"checkpoint", "ls", "."}, 3, "no checkpoint");
  refused({"generate", "--checkpoint", "nowhere", "--prompt", "x"}, 3, "nowhere");
  refused({"train", "job.yaml", "--out", "fresh", "--resume", "nowhere"}, 3, "nowhere");
  // Another dataset than the checkpoint's, and a job that is not its own.
  refused({"train", "job.yaml", "--out", "good"}, 3, "was trained on dataset 0123456789abcdef");
  refused({"train", "job.yaml", "--out", "good", "model.hidden=32"}, 2, "model.hidden");
}

TEST_F(BrokenInput, RunDirectories) {
  write_checkpoint("run/checkpoints/step-2", 2);
  desk_.write("run/job.lock.yaml", kGoodJob);
  desk_.write("mine/thesis.txt", "work of years");
  refused({"train", "job.yaml", "--out", "run", "--resume", "never"}, 2, "would overwrite them");
  refused({"train", "job.yaml", "--out", "mine"}, 2, "is not empty and is not a run");
  refused({"train", "job.yaml", "--out", "text.txt"}, 2, "is not a directory");
  refused({"train", "job.yaml", "--out", "text.txt/run"}, 2, "is not a directory");
  // Even root cannot create this one.
  refused({"train", "job.yaml", "--out", "/proc/run"}, 2,
          TRIREME_HAS_WORKER ? "/proc/run" : "trireme-worker");
  write_checkpoint("other/checkpoints/step-1", 1);
  refused({"train", "job.yaml", "--out", "run", "--resume", "other/checkpoints/step-1"}, 2,
          "would overwrite");
}

TEST_F(BrokenInput, APortInUse) {
  const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  socklen_t size = sizeof address;
  ASSERT_EQ(::bind(listener, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(::listen(listener, 1), 0);
  ASSERT_EQ(::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size), 0);
  const std::string port = std::to_string(ntohs(address.sin_port));
  for (const auto& [name, value] : std::map<std::string, std::string>{
           {"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", port}})
    desk_.set(name, value);
  refused({"train", "job.yaml", "--out", "run"}, 2, "port " + port + " is in use");
  ::close(listener);
}

TEST_F(BrokenInput, Launchers) {
  const auto with = [&](const std::map<std::string, std::string>& variables,
                        const std::vector<std::string>& more, const std::string& fragment) {
    for (const auto& [name, value] : variables) desk_.set(name, value);
    std::vector<std::string> arguments = {"train", "job.yaml", "--out", "run"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    refused(arguments, 2, fragment);
    for (const auto& [name, value] : variables) desk_.clear(name);
  };
  const std::map<std::string, std::string> torchrun = {{"RANK", "1"}, {"WORLD_SIZE", "2"}};
  with(torchrun, {"--nproc", "2"}, "already rank 1 of 2");
  with(torchrun, {"--ranks", "2"}, "already rank 1 of 2");
  with(torchrun, {}, "MASTER_ADDR and MASTER_PORT");
  with({{"RANK", "0"}}, {}, "WORLD_SIZE is not set");
  with({{"RANK", "2"}, {"WORLD_SIZE", "2"}}, {}, "RANK=\"2\"; needs a number from 0 to 1");
  with({{"RANK", "one"}, {"WORLD_SIZE", "2"}}, {}, "RANK=\"one\"");
  with({{"RANK", "0"}, {"WORLD_SIZE", "-2"}}, {}, "WORLD_SIZE=\"-2\"");
  with({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "h"}, {"MASTER_PORT", "70000"}}, {},
       "MASTER_PORT=\"70000\"");
  with({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "2"}}, {},
       "(Open MPI), but MASTER_ADDR");
  with({{"RANK", "0"}, {"WORLD_SIZE", "3"}, {"MASTER_ADDR", "h"}, {"MASTER_PORT", "7000"}}, {},
       "not divisible");
}

}  // namespace
}  // namespace trireme::app::broken_input_test
