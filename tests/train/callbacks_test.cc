#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "tests/formats/scratch.h"
#include "tests/harness/file_limit.h"
#include "trireme/base/error.h"
#include "trireme/base/json.h"
#include "trireme/formats/event.h"
#include "trireme/train/callbacks/chart.h"
#include "trireme/train/callbacks/jsonl.h"
#include "trireme/train/callbacks/progress.h"
#include "trireme/train/callbacks/report.h"
#include "trireme/train/callbacks/tensorboard.h"
#include "trireme/train/callbacks/text.h"

namespace trireme::train::callbacks_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

StepMetrics at_step(std::int64_t step) {
  const auto s = static_cast<double>(step);
  return {.step = step,
          .loss = 5 / (1 + s / 3),
          .grad_norm = 1 / s,
          .lr = 1e-3,
          .tokens = 64 * step,
          .tokens_per_s = 41234,
          .step_ms = 20,
          .mfu = 0.25,
          .rss_mb = 300,
          .comm_wait_ms = 1.5,
          .data_wait_ms = 0.25,
          .offload_wait_ms = 0.5,
          .time = 1764000000.25};
}

EvalMetrics eval_at(std::int64_t step) {
  return {.step = step, .loss = 2.0 / 3, .bits_per_byte = 0.7, .tokens = 100, .seconds = 0.5};
}

// Steps first+1 .. last with a validation every five.
void run(Callback& callback, const Path& out, std::int64_t first, std::int64_t last,
         bool end = true) {
  callback.on_start({.name = "tiny",
                     .out = out,
                     .job_yaml = "run: {}\n",
                     .plan_summary = "plan",
                     .first_step = first,
                     .steps = 20,
                     .mfu_convention = "6N + \"12LHS\""});
  for (std::int64_t step = first + 1; step <= last; ++step) {
    callback.on_step(at_step(step));
    if (step % 5 == 0) callback.on_eval(eval_at(step));
  }
  if (end)
    callback.on_end({.ending = last == 20 ? Ending::kDone : Ending::kInterrupted,
                     .step = last,
                     .checkpoint = {}});
}

const RunInfo kInfo{.out = {},
                    .mfu_convention = "6N + \"12LHS\"",
                    .loss = {.name = "contrastive cross-entropy", .unit = "nats/sample"}};

TEST(Jsonl, HasTheKeysOfTheContractAndExactNumbers) {
  StepMetrics metrics = at_step(3);
  metrics.loss = 0.1 + 0.2;
  const Json line = parse_json(jsonl_line(metrics, kInfo), "line");
  for (const char* key : {"step", "loss", "grad_norm", "lr", "tokens", "tokens_per_s", "step_ms",
                          "mfu", "mfu_convention", "rss_mb", "comm_wait_ms", "data_wait_ms",
                          "offload_wait_ms", "loss_scale", "skipped", "time"})
    EXPECT_TRUE(line.contains(key)) << key;
  EXPECT_EQ(line["loss_unit"], "nats/sample");
  EXPECT_EQ(line["time"], 1764000000.25);
  EXPECT_EQ(line["loss"].get<double>(), 0.1 + 0.2);
  EXPECT_EQ(line["grad_norm"].get<double>(), metrics.grad_norm);
  EXPECT_EQ(line["mfu_convention"], "6N + \"12LHS\"");
  EXPECT_EQ(line["loss_scale"], 1);
  EXPECT_EQ(line["skipped"], false);
  metrics.loss_scale = 1024;
  metrics.skipped = true;
  const Json scaled = parse_json(jsonl_line(metrics, {.out = {}}), "line");
  EXPECT_EQ(scaled["loss_scale"], 1024);
  EXPECT_EQ(scaled["skipped"], true);
  const Json eval = parse_json(jsonl_line(eval_at(5), kInfo), "line");
  EXPECT_EQ(eval["val_loss"].get<double>(), 2.0 / 3);
  EXPECT_EQ(eval["val_bits_per_byte"].get<double>(), 0.7);
}

TEST(Jsonl, ReadsBackWhatItWrote) {
  const formats::Scratch scratch;
  StepMetrics step = at_step(3);
  step.metrics = {{"accuracy", 0.25}, {"teacher_std", 0.9}};
  EvalMetrics eval = eval_at(3);
  eval.metrics = {{"accuracy", 0.5}};
  eval.time = 1764000001;
  scratch.write(kMetricsName, jsonl_line(step, kInfo) + "\n" + jsonl_line(eval, kInfo) + "\n");
  const History history = read_history(scratch / kMetricsName, 3);
  ASSERT_EQ(history.steps.size(), 1u);
  EXPECT_EQ(jsonl_line(history.steps[0], kInfo), jsonl_line(step, kInfo));
  ASSERT_EQ(history.evals.size(), 1u);
  EXPECT_EQ(jsonl_line(history.evals[0], kInfo), jsonl_line(eval, kInfo));
}

TEST(Jsonl, WhatIsNotFiniteIsNull) {
  StepMetrics metrics = at_step(1);
  metrics.loss = std::nan("");
  metrics.mfu = std::numeric_limits<double>::infinity();
  const Json line = parse_json(jsonl_line(metrics, {.out = {}}), "line");
  EXPECT_TRUE(line["loss"].is_null());
  EXPECT_TRUE(line["mfu"].is_null());
}

TEST(Jsonl, AKilledAndResumedRunLeavesTheSameFile) {
  const formats::Scratch whole, killed;
  run(*jsonl_callback(), whole.path(), 0, 20);
  run(*jsonl_callback(), killed.path(), 0, 13, false);
  std::string torn = read_file(killed / kMetricsName);
  killed.write(kMetricsName, torn + R"({"step":14,"lo)");
  run(*jsonl_callback(), killed.path(), 10, 20);
  EXPECT_EQ(read_file(killed / kMetricsName), read_file(whole / kMetricsName));
}

// A run that ends with a checkpoint of step 10, whose lines, of a step and of a validation, lose so many bytes at the end.
TEST(Jsonl, ATornLineOfTheLastCheckpointIsRepaired) {
  const formats::Scratch whole, torn;
  run(*jsonl_callback(), whole.path(), 0, 20);
  for (const std::size_t lost : {1, 30, 150, 400}) {
    std::filesystem::remove(torn / kMetricsName);
    const auto callback = jsonl_callback();
    run(*callback, torn.path(), 0, 10, false);
    callback->before_checkpoint();
    const std::string text = read_file(torn / kMetricsName);
    ASSERT_GT(text.size() - text.find(R"({"step":10,)"), lost);
    torn.write(kMetricsName, text.substr(0, text.size() - lost));
    run(*jsonl_callback(), torn.path(), 10, 20);
    EXPECT_EQ(read_file(torn / kMetricsName), read_file(whole / kMetricsName)) << lost << " bytes";
  }
  EXPECT_FALSE(std::filesystem::exists(torn / formats::kEventsName));
}

TEST(Jsonl, LinesThatAreLostForGoodAreAnEvent) {
  const formats::Scratch scratch;
  run(*jsonl_callback(), scratch.path(), 0, 10, false);
  std::string text = read_file(scratch / kMetricsName);
  const std::size_t third = text.find(R"({"step":3,)");
  text.erase(third, text.find('\n', third) + 1 - third);
  scratch.write(kMetricsName, text);
  run(*jsonl_callback(), scratch.path(), 10, 12);
  const std::string events = read_file(scratch / formats::kEventsName);
  EXPECT_THAT(events, HasSubstr("metrics lost"));
  EXPECT_THAT(events, HasSubstr("has 9 of the steps 1 to 10"));
}

// Steps 1 to 13, back to 10, and on to 20.
void run_with_rewind(Callback& callback, const Path& out) {
  run(callback, out, 0, 13, false);
  callback.on_rewind(10);
  for (std::int64_t step = 11; step <= 20; ++step) {
    callback.on_step(at_step(step));
    if (step % 5 == 0) callback.on_eval(eval_at(step));
  }
  callback.on_end({.ending = Ending::kDone, .step = 20, .checkpoint = {}});
}

// Else a run that goes on from a checkpoint could lack lines that waited when it was killed.
TEST(Jsonl, NoCheckpointBeginsWhileLinesWait) {
  const formats::Scratch scratch;
  const auto callback = jsonl_callback();
  callback->on_start({.out = scratch.path()});
  {
    const harness::FileLimit limit(10);
    callback->on_step(at_step(1));
    EXPECT_THROW(callback->before_checkpoint(), Error);
  }
  callback->before_checkpoint();
  EXPECT_EQ(read_history(scratch / kMetricsName, 1).steps.size(), 1u);
}

TEST(Jsonl, ARewoundRunLeavesTheSameFile) {
  const formats::Scratch whole, rewound;
  run(*jsonl_callback(), whole.path(), 0, 20);
  run_with_rewind(*jsonl_callback(), rewound.path());
  EXPECT_EQ(read_file(rewound / kMetricsName), read_file(whole / kMetricsName));
}

TEST(Report, ARewoundRunLeavesTheSamePage) {
  const formats::Scratch scratch;  // the page names its directory
  run(*report_callback(), scratch.path(), 0, 20);
  const std::string whole = read_file(scratch / kReportName);
  run_with_rewind(*report_callback(), scratch.path());
  EXPECT_EQ(read_file(scratch / kReportName), whole);
}

TEST(Jsonl, AFreshRunDropsWhatAnEarlierOneLeft) {
  const formats::Scratch scratch;
  scratch.write(kMetricsName, jsonl_line(at_step(1), {.out = {}}) + "\nnot JSON\n[]\n{}\n");
  run(*jsonl_callback(), scratch.path(), 0, 1, false);
  const History history = read_history(scratch / kMetricsName, 100);
  EXPECT_EQ(history.steps.size(), 1u);
  EXPECT_EQ(history.steps[0].loss, at_step(1).loss);
}

TEST(Jsonl, ADirectoryThatIsNotThereIsAnError) {
  formats::refusal([] { run(*jsonl_callback(), "/nowhere/run", 0, 1); });
}

std::string shown(ProgressOptions options, std::int64_t last) {
  const formats::Scratch scratch;
  std::string text;
  options.write = [&](std::string_view part) { text += part; };
  run(*progress_callback(std::move(options)), scratch.path(), 0, last);
  return text;
}

TEST(Progress, PlainLinesEverySoManySteps) {
  const std::string text = shown({.write = {}, .columns = {}, .log_every = 8, .baseline = 2.5}, 20);
  EXPECT_THAT(text, HasSubstr("step  8/20  loss 1.3636"));
  EXPECT_THAT(text, HasSubstr("step 16/20"));
  EXPECT_THAT(text, HasSubstr("step 20/20"));  // the last one in any case
  EXPECT_THAT(text, Not(HasSubstr("step  9/20")));
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  EXPECT_THAT(text, HasSubstr("0.700 bits/byte (n-gram baseline 2.500)"));
  EXPECT_THAT(text, HasSubstr("41.2k tok/s  MFU 25.0%"));
  EXPECT_THAT(text, HasSubstr("done: 20 steps"));
}

TEST(Progress, OverflowsAreSaidAtOnce) {
  std::string text;
  const auto callback = progress_callback(
      {.write = [&](std::string_view more) { text += more; }, .columns = {}, .log_every = 10});
  callback->on_start({.steps = 20});
  StepMetrics metrics = at_step(7);
  metrics.loss_scale = 65536;
  metrics.skipped = true;
  callback->on_step(metrics);
  metrics.step = 10;
  metrics.skipped = false;
  callback->on_step(metrics);
  EXPECT_THAT(text, HasSubstr("step 7  overflow at loss scale 65536: no update\n"));
  EXPECT_THAT(text, HasSubstr("lr 1.00e-03  loss scale 65536  "));
  EXPECT_THAT(text, Not(HasSubstr("step 10  overflow")));
}

TEST(Progress, AnEvaluationThatOverflowsIsSaid) {
  std::string text;
  const auto progress = progress_callback(
      {.write = [&](std::string_view part) { text += part; }, .columns = {}, .baseline = {}});
  progress->on_eval({.step = 5, .loss = INFINITY, .bits_per_byte = INFINITY, .seconds = 0.5});
  EXPECT_EQ(text, "step 5  validation loss is not finite  in 0.5s\n");
}

TEST(Progress, SaysWhatTheLossIs) {
  std::string text;
  const auto progress = progress_callback(
      {.write = [&](std::string_view part) { text += part; }, .columns = {}, .baseline = {}});
  progress->on_start(kInfo);
  progress->on_eval({.step = 5, .loss = 1.5, .metrics = {{"accuracy", 0.5}}});
  EXPECT_THAT(text, HasSubstr("loss      contrastive cross-entropy, nats/sample\n"));
  EXPECT_THAT(text, HasSubstr("validation loss 1.5000 nats/sample  accuracy 0.5"));
}

TEST(Progress, TheBarIsRemovedAtTheEndAndBetweenLines) {
  const std::string text =
      shown({.write = {}, .columns = [] { return 80; }, .redraw_s = 0, .baseline = {}}, 20);
  EXPECT_TRUE(text.ends_with("\r\x1b[K")) << text;
  EXPECT_THAT(text, HasSubstr("\r\x1b[Kstep 5  validation"));
  EXPECT_THAT(text, HasSubstr("20/20 ━"));
}

TEST(Progress, TheBarIsRedrawnSeldom) {
  const std::string often =
      shown({.write = {}, .columns = [] { return 80; }, .redraw_s = 0, .baseline = {}}, 4);
  const std::string seldom =
      shown({.write = {}, .columns = [] { return 80; }, .redraw_s = 1000, .baseline = {}}, 4);
  EXPECT_THAT(often, HasSubstr("3/20"));
  EXPECT_THAT(seldom, HasSubstr("1/20"));
  EXPECT_THAT(seldom, Not(HasSubstr("3/20")));
}

int columns_of(const std::string& text) {
  return static_cast<int>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

TEST(Progress, TheBarFitsEveryWidth) {
  for (int columns = 1; columns < 200; ++columns)
    EXPECT_LT(columns_of(bar_line(at_step(7), 20, 3661, columns)), std::max(columns, 2)) << columns;
  EXPECT_THAT(bar_line(at_step(7), 20, 3661, 100), HasSubstr("ETA 1h01m"));
  EXPECT_THAT(bar_line(at_step(7), 20, 3661, 40), Not(HasSubstr("MFU")));
}

// A fall back is neither silent nor lost among lines: it stands before the first step.
TEST(Progress, WhatWaitsOutsideMemorySaysHow) {
  std::string text;
  const auto progress = progress_callback(
      {.write = [&](std::string_view part) { text += part; }, .columns = {}, .baseline = {}});
  progress->on_start(
      {.out = {}, .offload = {"nvme: threads (io_uring: Operation not permitted), page cache"}});
  EXPECT_EQ(text, "offload   nvme: threads (io_uring: Operation not permitted), page cache\n");
  progress->on_end(
      {.offload =
           {{"nvme",
             {.written = 1'500'000'000, .read = 3'000'000'000, .write_s = 3, .read_s = 1.5}}},
       .checkpoint = {}});
  EXPECT_THAT(text, HasSubstr("offload of rank 0: 1.5 GB at 0.5 GB/s written to nvme, 3 GB at 2 "
                              "GB/s read\n"));
}

TEST(Progress, AnInterruptSaysHowToGoOn) {
  EXPECT_THAT(shown({.write = {}, .columns = {}, .baseline = {}}, 3),
              HasSubstr("interrupted after step 3 of 20"));
}

TEST(Report, IsSelfContainedAndEscapes) {
  Report report;
  report.info = {.name = "<script>alert(1)</script>",
                 .out = {},
                 .job_yaml = "a: \"<b>\"\n",
                 .plan_summary = "1 < 2 & 3",
                 .steps = 20,
                 .predicted_step_s = 0.01,
                 .predicted_bytes = {1000},
                 .mfu_convention = "6N"};
  report.end = {.step = 20, .measured_bytes = {1010}, .checkpoint = "out/step-20"};
  for (int step = 1; step <= 20; ++step) report.steps.push_back(at_step(step));
  report.evals = {eval_at(10), eval_at(20)};
  report.baseline = 2.5;
  const std::string page = html(report);
  for (const char* forbidden : {"<script", "http:", "https:", "src=", "nan", "inf"})
    EXPECT_THAT(page, Not(HasSubstr(forbidden)));
  for (const char* wanted : {"&lt;script&gt;", "1 &lt; 2 &amp; 3", "<polyline",
                             "prefers-color-scheme: dark", "0.700", "2.500", ">2.00<", ">1.01<"})
    EXPECT_THAT(page, HasSubstr(wanted));
}

// Loss, unit and metrics are the family's, and the page is about this run.
TEST(Report, IsAboutThisRunOfThisFamily) {
  const formats::Scratch scratch;
  scratch.write(formats::kEventsName,
                R"({"time":"2026-11-24T10:00:00Z","class":"rank killed","rank":1,"step":7,)"
                R"("cause":"signal 9 <","action":"restart"})"
                "\ntorn");
  RunInfo info = kInfo;
  info.name = "first";
  info.out = scratch.path();
  info.steps = 10;
  info.model = "clip";
  info.digest = "00ab";
  info.host = "trireme-host";
  info.timeline =
      "<svg xmlns=\"http://www.w3.org/2000/svg\"><style>.h{fill:red}</style>a step</svg>";
  info.from = {.command = "trireme train clip.yaml --set 'a=b c'",
               .data = "scenes: 40 pairs",
               .versions = "LibTorch 1.13"};
  const auto report = report_callback();
  report->on_start(info);
  for (int step = 1; step <= 10; ++step) {
    StepMetrics metrics = at_step(step);
    metrics.metrics = {{"accuracy", 0.1 * step}};
    report->on_step(metrics);
  }
  EvalMetrics eval = eval_at(10);
  eval.bits_per_byte = 0;
  eval.metrics = {{"accuracy", 0.75}};
  report->on_eval(eval);
  report->on_end({.step = 10, .checkpoint = {}});
  const std::string page = read_file(scratch / kReportName);
  for (const char* wanted :
       {"<title>first</title>", "contrastive cross-entropy, nats/sample", "validation accuracy",
        "<b>accuracy</b>", "<b>Learning rate</b>", "<b>Throughput</b>",
        "<b>Step time and waits</b>", "key strong\">communication", "rank killed: signal 9 &lt;",
        "step 7: rank killed", "restart", "<style>.timeline svg{.h{fill:red}}</style>a step",
        "scenes: 40 pairs", "00ab", "trireme-host", "LibTorch 1.13", "--set &#39;a=b c&#39;"})
    EXPECT_THAT(page, HasSubstr(wanted));
  for (const char* unwanted : {"nats/token", "nats per token", "n-gram", "http:"})
    EXPECT_THAT(page, Not(HasSubstr(unwanted)));
}

TEST(Report, DrawsTheBaselineAndShowsWhatTheModelWrote) {
  const formats::Scratch scratch;
  RunInfo info;
  info.out = scratch.path();
  info.bytes_per_token = 2;
  info.loss = {.name = "cross-entropy", .unit = model::kNatsPerToken};
  Path asked;
  const auto report =
      report_callback({.baseline = 1.5, .write = [&](const Path& checkpoint) {
                         asked = checkpoint;
                         return std::vector<Written>{{.prompt = "a <", .text = "b\xDA."}};
                       }});
  report->on_start(info);
  for (int step = 1; step <= 10; ++step) report->on_step(at_step(step));
  report->on_end({.ending = Ending::kDone, .step = 10, .checkpoint = "run/step-10"});
  EXPECT_EQ(asked, "run/step-10");
  const std::string page = read_file(scratch / kReportName);
  EXPECT_THAT(page, HasSubstr("class=\"line rule\""));
  EXPECT_THAT(page, HasSubstr("n-gram baseline"));
  EXPECT_THAT(page, HasSubstr("<b>a &lt;</b>b\uFFFD."));
}

// Steps of at_step() take 20 ms.
TEST(Report, PutsTheMeasurementBesideTheForecastAndItsBand) {
  Report report;
  report.info = {.out = {},
                 .steps = 20,
                 .predicted_step_s = 0.02,
                 .predicted_low_s = 0.018,
                 .predicted_high_s = 0.022,
                 .predicted_process = 200 << 20,
                 .prediction = "by the calibration of 2026-01-31"};
  report.end = {.step = 20, .measured_process = 210 << 20, .checkpoint = {}};
  for (int step = 1; step <= 20; ++step) report.steps.push_back(at_step(step));
  EXPECT_THAT(html(report), HasSubstr("<td>20.0 ms (18.0 to 22.0)</td><td>20.0 ms, inside</td>"));
  EXPECT_THAT(html(report), HasSubstr("<td>200 MiB</td><td>210 MiB</td><td>1.05</td>"));
  EXPECT_THAT(html(report), HasSubstr("by the calibration of 2026-01-31"));
  report.info.predicted_low_s = 0.0201;
  EXPECT_THAT(html(report), HasSubstr("20.0 ms, outside"));
}

TEST(Progress, EndsWithTheMeasurementBesideTheForecast) {
  std::string text;
  const auto progress = progress_callback(
      {.write = [&](std::string_view part) { text += part; }, .columns = {}, .baseline = {}});
  progress->on_start({.out = {},
                      .steps = 3,
                      .predicted_step_s = 0.03,
                      .predicted_low_s = 0.027,
                      .predicted_high_s = 0.033,
                      .predicted_process = 200 << 20,
                      .prediction = "by the calibration of 2026-01-31"});
  for (int step = 1; step <= 3; ++step) progress->on_step(at_step(step));
  for (int step = 4; step <= 8; ++step) {  // steps that do not last do not count
    StepMetrics slow = at_step(step);
    slow.step_ms *= 5;
    progress->on_step(slow);
  }
  progress->on_rewind(3);
  progress->on_end({.step = 3, .measured_process = 210 << 20, .checkpoint = {}});
  EXPECT_THAT(text,
              HasSubstr("step time: 20.0 ms measured, 30.0 ms (27.0 to 33.0) forecast by the "
                        "calibration of 2026-01-31: outside the band; trireme bench calibrate "
                        "measures this machine while nothing else runs\n"));
  EXPECT_THAT(text, HasSubstr("memory of rank 0's process: 200 MiB forecast, 210 MiB "
                              "measured\n"));
}

TEST(Report, AResumedRunTellsTheWholeStory) {
  const formats::Scratch scratch;
  run(*jsonl_callback(), scratch.path(), 0, 20);
  run(*report_callback(), scratch.path(), 10, 20);
  const std::string page = read_file(scratch / kReportName);
  EXPECT_THAT(page, HasSubstr("step 5: 0.6667"));  // a validation before the resume
  EXPECT_THAT(page, HasSubstr("step 15: 0.6667"));
  EXPECT_THAT(page, HasSubstr("resumed after step 10"));
}

TEST(Report, WithoutAStepItSaysSo) { EXPECT_THAT(html({}), HasSubstr("no points")); }

TEST(Chart, SurvivesWhatIsNotFiniteAndFlatLines) {
  const double nan = std::nan(""), inf = std::numeric_limits<double>::infinity();
  const std::string svg = draw(
      {.title = "t",
       .series = {
           {.name = "a", .css_class = "strong", .points = {{1, nan}, {2, 3}, {3, inf}, {4, 3}}}}});
  EXPECT_THAT(svg, HasSubstr("<polyline"));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(svg, Not(HasSubstr("inf")));
  EXPECT_THAT(
      draw({.title = "t", .series = {{.name = "a", .css_class = "strong", .points = {{1, nan}}}}}),
      HasSubstr("no points"));
}

TEST(Chart, ShowsAFlatLineWhereItIs) {
  const std::string svg =
      draw({.series = {{.name = "a", .css_class = "strong", .points = {{1, 1e-3}, {2, 1e-3}}}}});
  EXPECT_THAT(svg, HasSubstr(">0.001<"));
  EXPECT_THAT(svg, Not(HasSubstr(">-")));
}

TEST(Chart, ALongRunStaysSmall) {
  Series series{.name = "a", .css_class = "faint"};
  for (int k = 0; k < 100000; ++k) series.points.emplace_back(k, std::sin(k));
  EXPECT_LT(draw({.title = "t", .series = {series}}).size(), 20000u);
}

TEST(TensorBoard, WritesAnEventFile) {
  const formats::Scratch scratch;
  run(*tensorboard_callback(), scratch.path(), 0, 5);
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(scratch.path())) {
    ++files;
    EXPECT_THAT(entry.path().filename().string(), HasSubstr("tfevents"));
    EXPECT_THAT(read_file(entry.path()), HasSubstr("validation/bits_per_byte"));
    EXPECT_THAT(read_file(entry.path()), HasSubstr("train/loss_scale"));
    EXPECT_THAT(read_file(entry.path()), HasSubstr("train/skipped"));
  }
  EXPECT_EQ(files, 1u);
}

TEST(TensorBoard, SaysWhatTheLossIs) {
  const formats::Scratch scratch;
  RunInfo info = kInfo;
  info.out = scratch.path();
  const auto board = tensorboard_callback();
  board->on_start(info);
  board->on_step(at_step(1));
  board->on_step(at_step(2));
  board->on_eval(eval_at(2));
  board->on_end({.checkpoint = {}});
  for (const auto& entry : std::filesystem::directory_iterator(scratch.path())) {
    const std::string file = read_file(entry.path());
    const std::string label = "contrastive cross-entropy, nats/sample";
    const std::size_t first = file.find(label), second = file.find(label, first + 1);
    ASSERT_NE(second, file.npos);
    EXPECT_EQ(file.find(label, second + 1), file.npos);  // once for each tag
  }
}

TEST(Text, NumbersAsPeopleReadThem) {
  EXPECT_EQ(short_count(950), "950");
  EXPECT_EQ(short_count(41234), "41.2k");
  EXPECT_EQ(short_count(999999), "1.0M");
  EXPECT_EQ(short_count(10.8e6), "10.8M");
  EXPECT_EQ(short_bytes(512), "512 B");
  EXPECT_EQ(short_bytes(12'900'000), "12.3 MiB");
  EXPECT_EQ(short_time(0.84), "0.8s");
  EXPECT_EQ(short_time(92), "1m32s");
  EXPECT_EQ(short_time(11100), "3h05m");
  EXPECT_EQ(short_time(std::nan("")), "?");
}

}  // namespace
}  // namespace trireme::train::callbacks_test
