// What every command has in common: help, mistakes, JSON for programs, completion, colours.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/apps/program.h"
#include "trireme/base/json.h"

namespace trireme::app {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Words = std::vector<std::string>;

const std::string kJob = TRIREME_SOURCE_DIR "/recipes/gpt_tiny.yaml";

TEST(CommandLine, SaysWhichCommandMayBeMeant) {
  const Desk desk;
  for (const auto& [words, meant] :
       {std::pair(Words{"trian", "job.yaml"}, "did you mean train?"),
        std::pair(Words{"checkpoint", "lss"}, "did you mean ls?"),
        std::pair(Words{"bench", "kernells"}, "did you mean kernels?")}) {
    const Result result = desk.run(words);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.err, HasSubstr(meant));
  }
  EXPECT_THAT(desk.run({"xyzzy"}).err, Not(HasSubstr("did you mean")));
  EXPECT_THAT(desk.run({"xyzzy"}).err, Not(HasSubstr(" complete ")));  // for shells alone
}

TEST(CommandLine, SaysWhichOptionMayBeMeant) {
  const Desk desk;
  for (const auto& [words, meant] :
       {std::pair(Words{"train", kJob, "--stpes", "4"},
                  "unknown option --stpes; did you mean --steps? see trireme train --help"),
        std::pair(Words{"checkpoint", "ls", "--jsn=-"}, "did you mean --json?"),
        std::pair(Words{"launch", "--", "train", kJob, "--otu", "x"}, "did you mean --out?"),
        std::pair(Words{"launch", "--max-restart", "1", "--", "train", kJob},
                  "did you mean --max-restarts?")}) {
    const Result result = desk.run(words);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.err, HasSubstr(meant));
  }
  const Result far = desk.run({"doctor", "--xyzzy"});
  EXPECT_THAT(far.err, HasSubstr("unknown option --xyzzy; see trireme doctor --help"));
  EXPECT_THAT(desk.run({"train", kJob, "--steps", "x"}).err, HasSubstr("--steps"));
}

TEST(CommandLine, RefusesAProbabilityBeforeItLooksForTheModel) {
  const Desk desk;
  for (const char* p : {"0", "-1", "1.5", "x"}) {
    const Result result =
        desk.run({"generate", "--checkpoint", "nowhere", "--prompt", "x", "--top-p", p});
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.err, HasSubstr("--top-p"));
    EXPECT_THAT(result.err, HasSubstr("needs more than 0 and at most 1"));
  }
  EXPECT_THAT(
      desk.run({"generate", "--checkpoint", "nowhere", "--prompt", "x", "--top-p", "1"}).err,
      HasSubstr("nowhere"));
}

TEST(CommandLine, HelpHasExamplesOfTheCommandAskedAlone) {
  const Desk desk;
  const std::string ls = desk.run({"checkpoint", "ls", "--help"}).out;
  EXPECT_THAT(ls, HasSubstr("  trireme checkpoint ls runs/first"));
  EXPECT_THAT(ls, Not(HasSubstr("trireme checkpoint reshard")));
  const std::string step = desk.run({"bench", "step", "--help"}).out;
  EXPECT_THAT(step, HasSubstr("  trireme bench step recipes/gpt_s.yaml"));
  EXPECT_THAT(step, Not(HasSubstr("trireme bench disk")));
  EXPECT_THAT(desk.run({"checkpoint", "--help"}).out, HasSubstr("trireme checkpoint reshard"));
  EXPECT_EQ(desk.run({"help", "checkpoint", "ls"}).out, ls);
  EXPECT_EQ(desk.run({"help"}).out, desk.run({"--help"}).out);
}

TEST(CommandLine, ExplainsOneKeyOrSection) {
  const Desk desk;
  const Result key = desk.run({"train", "--help-config", "data.validation"});
  EXPECT_EQ(key.exit_code, 0) << key.err;
  EXPECT_THAT(key.out, testing::StartsWith("- `data.validation` (a number "));
  EXPECT_EQ(std::ranges::count(key.out, '\n'), 1);
  const Result section = desk.run({"train", "--help-config", "optim"});
  EXPECT_THAT(section.out, HasSubstr("`optim.lr`"));
  EXPECT_THAT(section.out, Not(HasSubstr("`run.steps`")));
  const Result unknown = desk.run({"train", "--help-config", "data.validaton"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("did you mean data.validation?"));
}

// The same option for all that print a table.
TEST(CommandLine, JsonIsSpelledAlike) {
  const Desk desk;
  for (const Words& command : {Words{"explain"},
                               {"plan"},
                               {"sweep"},
                               {"diff"},
                               {"doctor"},
                               {"checkpoint", "ls"},
                               {"checkpoint", "inspect"},
                               {"checkpoint", "verify"},
                               {"checkpoint", "diff"},
                               {"data", "inspect"},
                               {"data", "verify"},
                               {"data", "tokenizer"},
                               {"bench", "calibrate"},
                               {"bench", "collectives"},
                               {"bench", "context"},
                               {"bench", "disk"},
                               {"bench", "forecast"},
                               {"bench", "kernels"},
                               {"bench", "memory"},
                               {"bench", "pipeline"},
                               {"bench", "recompute"},
                               {"bench", "step"}}) {
    Words help = command;
    help.push_back("--help");
    EXPECT_THAT(desk.run(help).out, HasSubstr("--json FILE")) << testing::PrintToString(command);
  }
}

TEST(CommandLine, JsonGoesToAFileBesideTheTextOrToStdoutInstead) {
  const Desk desk;
  const Words explain = {"explain", kJob, "--ranks", "2"};
  const auto with = [&](const Words& more) {
    Words words = explain;
    words.insert(words.end(), more.begin(), more.end());
    return desk.run(words);
  };
  const std::string text = desk.run(explain).out;
  const Result both = with({"--json", "plan.json"});
  EXPECT_EQ(both.exit_code, 0) << both.err;
  EXPECT_EQ(both.out, text);
  const Json json = parse_json(read_file(desk / "plan.json"), "plan.json");
  const Result alone = with({"--json", "-"});
  EXPECT_EQ(alone.exit_code, 0);
  EXPECT_EQ(parse_json(alone.out, "stdout").size(), json.size());
  EXPECT_EQ(alone.err, text);
  const Result memory = with({"--memory", "--json", "-"});
  EXPECT_FALSE(parse_json(memory.out, "stdout").empty());
  EXPECT_THAT(with({"--format", "svg", "--json", "-"}).err, HasSubstr("leave out --format svg"));
  EXPECT_EQ(with({"--format", "svg", "--json", "-"}).exit_code, 2);
  const Result option = with({"--json", "--memory"});  // is no name
  EXPECT_EQ(option.exit_code, 2);
  EXPECT_THAT(option.err, HasSubstr("needs a file name or -, not --memory"));
  EXPECT_THAT(with({"--json", "no/where.json"}).err,
              HasSubstr("--json no/where.json: cannot write"));
}

TEST(CommandLine, JsonOfADataset) {
  const Desk desk;
  desk.write("text.txt", std::string(4000, 'a'));
  ASSERT_EQ(desk.run({"data", "prepare", "text.txt", "--out", "book"}).exit_code, 0);
  for (const char* command : {"inspect", "verify"}) {
    const Result result = desk.run({"data", command, "book", "--json", "-"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    const Json json = parse_json(result.out, "stdout");
    EXPECT_EQ(json["train"]["tokens"], 3600);
    EXPECT_EQ(json["vocabulary"], 256);
    EXPECT_THAT(result.err, HasSubstr("tokenizer   bytes"));
    // A file of text is no dataset.
    const Result text = desk.run({"data", command, "text.txt"});
    EXPECT_EQ(text.exit_code, 3);
    EXPECT_THAT(text.err, HasSubstr("text.txt: is a file"));
    EXPECT_THAT(text.err, HasSubstr("trireme data prepare text.txt --out DIRECTORY"));
  }
  const Result result = desk.run({"data", "tokenizer", "book", "--json", "-"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const Json json = parse_json(result.out, "stdout");
  EXPECT_EQ(json["tokenizer"], "bytes");
  EXPECT_EQ(json["vocabulary"], 256);
  const Json record = parse_json(read_file(desk / "book/dataset.json"), "dataset.json");
  EXPECT_EQ(record["vocabulary_digest"], json["vocabulary_digest"]);
}

Words completed(const Desk& desk, Words words) {
  words.insert(words.begin(), {"complete", "--"});
  const Result result = desk.run(words);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  std::istringstream lines(result.out);
  Words found;
  for (std::string line; std::getline(lines, line);)
    found.push_back(line.substr(0, line.find('\t')));
  return found;
}

TEST(Completion, KnowsCommandsOptionsValuesAndKeys) {
  const Desk desk;
  EXPECT_THAT(completed(desk, {"ch"}), testing::ElementsAre("checkpoint"));
  EXPECT_THAT(completed(desk, {""}), testing::IsSupersetOf({"train", "launch", "completion"}));
  EXPECT_THAT(completed(desk, {""}), Not(testing::Contains("complete")));
  EXPECT_THAT(completed(desk, {"checkpoint", "re"}), testing::ElementsAre("reshard"));
  EXPECT_THAT(completed(desk, {"train", "--ra"}), testing::ElementsAre("--ranks"));
  EXPECT_THAT(completed(desk, {"explain", "--format", "s"}), testing::ElementsAre("svg"));
  EXPECT_THAT(completed(desk, {"train", "job.yaml", "--set", "parallel.z"}),
              testing::ElementsAre("parallel.zero="));
  EXPECT_THAT(completed(desk, {"train", "job.yaml", "run.micro"}),
              testing::ElementsAre("run.micro_batch="));
  EXPECT_THAT(completed(desk, {"train", "--help-config", "run.micro"}),
              testing::ElementsAre("run.micro_batch"));
  EXPECT_THAT(completed(desk, {"launch", "--", "train", "--qu"}), testing::ElementsAre("--quiet"));
  EXPECT_TRUE(completed(desk, {"train", "recipes/"}).empty());  // files
}

TEST(Completion, BashAsksTheProgram) {
  const Desk desk;
  const std::string script =
      "PATH=" TRIREME_BIN_DIR
      ":$PATH; source <(trireme completion bash); COMP_WORDS=(trireme checkpoint ver); "
      "COMP_CWORD=2; _trireme; echo \"${COMPREPLY[*]}\"; complete -p trireme";
  const Result result = desk.run({"-c", script}, "/bin/bash");
  EXPECT_EQ(result.out, "verify\ncomplete -o default -F _trireme trireme\n") << result.err;
  EXPECT_EQ(desk.run({"completion", "tcsh"}).exit_code, 2);
  for (const char* shell : {"zsh", "fish"})
    EXPECT_THAT(desk.run({"completion", shell}).out, HasSubstr("trireme complete --"));
}

// `script` gives the program a terminal.
TEST(CommandLine, ErrorsHaveColoursOnATerminalAlone) {
  Desk desk;
  const Words on_terminal = {"-qec", TRIREME_BIN_DIR "/trireme trian", "/dev/null"};
  const Result coloured = desk.run(on_terminal, "/usr/bin/script");
  EXPECT_THAT(coloured.out, HasSubstr("\x1b[31mtrireme: usage:\x1b[0m unknown command"));
  desk.set("NO_COLOR", "1");
  EXPECT_THAT(desk.run(on_terminal, "/usr/bin/script").out, HasSubstr("trireme: usage: unknown"));
  desk.clear("NO_COLOR");
  EXPECT_THAT(desk.run({"trian"}).err, testing::StartsWith("trireme: usage: unknown"));
}

TEST(Explain, ACudaJobOnSeveralRanksIsExplainedAsItCanTrain) {
  const Desk desk;
  const Result result = desk.run(
      {"explain", kJob, "--ranks", "2", "--set", "run.device=cuda", "--cluster", "dgx-a100"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("precision.numerics=fast"));
  EXPECT_EQ(desk.run({"explain", kJob, "--ranks", "2", "--set", "run.device=cuda",
                      "precision.numerics=fast", "--cluster", "dgx-a100"})
                .err,
            "");
}

}  // namespace
}  // namespace trireme::app
