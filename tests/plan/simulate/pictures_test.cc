// Pictures and traces: all lines are in them, and nothing that they do not need.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/harness/examples.h"
#include "tests/plan/pipelines.h"
#include "trireme/base/json.h"
#include "trireme/plan/actions.h"
#include "trireme/plan/passes/compile.h"
#include "trireme/plan/simulate/pictures/svg.h"
#include "trireme/plan/simulate/pictures/trace.h"
#include "trireme/plan/text/text.h"

namespace trireme::simulate::pictures::pictures_test {
namespace {

using plan::NodeSeconds;
using plan::PlanSet;
using schedules::Schedule;
using testing::ElementsAre;
using testing::HasSubstr;

const NodeSeconds kEqual{1e-3, 1e-3, 1e-3};

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size())
    ++found;
  return found;
}

// Every element that opens closes, in order, and no text holds a bare & or <.
void expect_well_formed(const std::string& xml) {
  std::vector<std::string> open;
  for (std::size_t at = 0; at < xml.size(); ++at) {
    if (xml[at] == '&') {
      EXPECT_TRUE(xml.compare(at, 5, "&amp;") == 0 || xml.compare(at, 4, "&lt;") == 0);
    }
    if (xml[at] != '<') continue;
    const std::size_t end = xml.find('>', at);
    ASSERT_NE(end, std::string::npos);
    std::string tag = xml.substr(at + 1, end - at - 1);
    at = end;
    if (tag.back() == '/') continue;
    if (tag[0] != '/') {
      open.push_back(tag.substr(0, tag.find(' ')));
      continue;
    }
    ASSERT_FALSE(open.empty());
    EXPECT_EQ(tag.substr(1), open.back());
    open.pop_back();
  }
  EXPECT_TRUE(open.empty());
}

TEST(Boxes, AreTheActionsOfTheSchedule) {
  for (const char* name : {"gpipe", "1f1b", "interleaved", "zb_h1", "zb_v", "dualpipe_v"}) {
    const PlanSet plan = plan::pipeline(*schedules::schedule_of(name), 4, 8, kEqual);
    const Forecast forecast =
        simulate(plan, {.memory_bytes_per_s = 1e300, .link_latency_s = 0, .line_s = 0});
    for (const Timeline& one : timelines(plan, forecast)) {
      std::vector<Box> all = boxes(plan, one, 0);
      std::erase_if(all, [](const Box& box) { return box.kind > BoxKind::kWeight; });
      const auto actions = plan::actions(plan.program, plan.list(one.rank));
      ASSERT_EQ(all.size(), actions.size()) << name;
      for (std::size_t i = 0; i < all.size(); ++i) {
        EXPECT_EQ(static_cast<int>(all[i].kind), static_cast<int>(actions[i].action.work));
        EXPECT_EQ(all[i].mb, actions[i].action.mb);
        EXPECT_EQ(all[i].chunk, actions[i].action.chunk);
        EXPECT_NEAR(all[i].end - all[i].start, all[i].kind == BoxKind::kBackward ? 2e-3 : 1e-3,
                    1e-12);
      }
    }
  }
}

// Two nodes of one action are one box, unless the rank waits between them for longer than the seam.
TEST(Boxes, PartWhereTheRankWaits) {
  const PlanSet plan = plan::compile(harness::chain_example(1), mesh::Mesh(), {});
  Timeline timeline{.times = std::vector<LineTime>(plan.lists[0].size())};
  double at = 0;
  for (std::size_t i = 0; i < timeline.times.size(); ++i) {
    if (plan.lists[0][i].verb != plan::Verb::kForward) continue;
    timeline.times[i] = {.start = at, .end = at + 1};
    at += 1.25;
  }
  EXPECT_EQ(boxes(plan, timeline, 0.5).size(), 1u);
  EXPECT_EQ(boxes(plan, timeline, 0.1).size(), 3u);
}

TEST(Svg, ShowsEveryRowNumberAndUnit) {
  const PlanSet plan = plan::pipeline(Schedule::kZbV, 4, 8, kEqual);
  const std::string picture = svg(plan, timelines(plan, simulate(plan, CostModel())),
                                  {.title = "a <b> & c", .subtitle = "below"});
  expect_well_formed(picture);
  EXPECT_THAT(picture, HasSubstr("a &lt;b> &amp; c"));
  for (int rank = 0; rank < 4; ++rank)
    EXPECT_THAT(picture, HasSubstr(fmt::format("stage {0}, rank {0}</text>", rank)));
  // 8 micro-batches through two chunks on 4 ranks, three boxes each.
  for (const char* kind : {"forward of", "backward, inputs of", "backward, weights of"})
    EXPECT_EQ(count(picture, std::string("<title>") + kind), 4 * 2 * 8) << kind;
  EXPECT_EQ(count(picture, "class=\"n\""), 3 * 4 * 2 * 8);
  EXPECT_EQ(count(picture, "class=\"m\" d="), 4);
  EXPECT_THAT(picture, HasSubstr(">0 ms</text>"));
  for (const char* beside : {"http://", "https://", "<script", "@import", "url("})
    EXPECT_LE(count(picture, beside), beside == std::string("http://") ? 1 : 0);  // the namespace
}

// Numbers are left out where they do not fit; the boxes stay.
TEST(Svg, NumbersFitTheirBoxes) {
  const auto drawn = [](int p, int m) {
    const PlanSet plan = plan::pipeline(Schedule::k1F1B, p, m, kEqual);
    return svg(plan, timelines(plan, simulate(plan, CostModel())), {});
  };
  EXPECT_EQ(count(drawn(8, 32), "class=\"n\""), 2 * 8 * 32);  // readable
  const std::string large = drawn(8, 400);
  EXPECT_EQ(count(large, "<title>"),
            2 * 8 * 400 + count(large, "<title>optimizer") + count(large, "<title>loading"));
  EXPECT_LT(count(large, "class=\"n\""), 2 * 8 * 400);
}

TEST(MemoryCurve, ReachesThePeakOfTheAccount) {
  const PlanSet plan = plan::pipeline(Schedule::kZbH1, 4, 8, kEqual);
  const Forecast forecast = simulate(plan, CostModel());
  for (const Timeline& one : timelines(plan, forecast)) {
    std::int64_t most = 0;
    double at = 0;
    for (const MemoryPointInTime& point : memory_curve(plan, one)) {
      EXPECT_GE(point.at, at);
      at = point.at;
      most = std::max(most, point.bytes);
    }
    EXPECT_EQ(most, memory_account(plan, one.rank).peak_total);
  }
}

TEST(Trace, HasEveryLineOnceAndRowsDoNotOverlap) {
  const PlanSet plan = plan::pipeline(Schedule::kDualPipeV, 4, 8, kEqual);
  const std::vector<Timeline> lines = timelines(plan, simulate(plan, CostModel()));
  const Json json = parse_json(trace(plan, lines).text(), "trace");
  std::map<int, std::set<int>> seen;  // rank: lines
  std::map<std::pair<int, int>, double> until;
  int counters = 0;
  for (const Json& event : json["traceEvents"]) {
    counters += event["ph"] == "C";
    if (event["ph"] != "X") continue;
    const int rank = event["pid"], line = event["args"]["line"];
    EXPECT_TRUE(seen[rank].insert(line).second);
    EXPECT_EQ(event["args"]["text"], plan::line_text(plan.program, plan.list(rank)[line]));
    double& end = until[{rank, event["tid"].get<int>()}];
    EXPECT_GE(event["ts"].get<double>(), end - 1e-6);
    end = event["ts"].get<double>() + event["dur"].get<double>();
  }
  int computing = 0;
  for (const Timeline& one : lines) {
    for (std::size_t i = 0; i < one.times.size(); ++i)
      EXPECT_EQ(seen[one.rank].contains(static_cast<int>(i)),
                one.times[i].end - one.times[i].start >= 1e-9);
    for (const plan::Instr& line : plan.list(one.rank)) computing += line.lane == plan::Lane::kComp;
  }
  EXPECT_EQ(counters, computing);
}

// Of two timelines of a rank the second one stands behind the world.
TEST(Trace, OverlaysAreProcessesOfTheirOwn) {
  const PlanSet plan = plan::pipeline(Schedule::k1F1B, 2, 2, kEqual);
  std::vector<Timeline> lines = timelines(plan, simulate(plan, CostModel()));
  lines.push_back(lines[1]);
  lines.back().label = "measured";
  std::map<int, std::string> names;
  const Json json = parse_json(trace(plan, lines).text(), "trace");
  for (const Json& event : json["traceEvents"])
    if (event["name"] == "process_name") names[event["pid"]] = event["args"]["name"];
  EXPECT_THAT(names,
              ElementsAre(testing::Pair(0, "stage 0, rank 0"), testing::Pair(1, "stage 1, rank 1"),
                          testing::Pair(3, "measured")));
}

}  // namespace
}  // namespace trireme::simulate::pictures::pictures_test
