// trireme-worker diff: runs a job under several layouts and shows where they part.
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "apps/worker/subcommands.h"
#include "trireme/base/clock.h"
#include "trireme/base/fs.h"
#include "trireme/base/json.h"
#include "trireme/data/text/dataset.h"
#include "trireme/model/layout.h"
#include "trireme/train/machine.h"
#include "trireme/train/recording/compare.h"
#include "trireme/train/run/samples.h"

namespace trireme::app {
namespace {

using train::Comparison;
using train::Kind;
using train::Recording;
using train::step_name;

struct Layout {
  std::string name;
  config::Job job;

  int ranks() const { return model::mesh_of(job).world(); }
};

// The first layout's recording stays while each of the others is made and compared.
void check_memory(const std::vector<Layout>& layouts, int steps) {
  const train::RecordingBytes first = train::recording_bytes(layouts[0].job, steps);
  std::int64_t recordings = 0;
  std::int64_t passing = first.passing;
  for (std::size_t i = 1; i < layouts.size(); ++i) {
    const train::RecordingBytes other = train::recording_bytes(layouts[i].job, steps);
    recordings = std::max(recordings, first.kept + other.kept);
    passing = std::max(passing, other.passing);
  }
  const std::int64_t available = train::available_bytes();
  if (recordings + passing <= available) return;
  fail(ErrorKind::kUsage,
       "two recordings of {} steps take {:.1f} MB and the ranks {:.1f} MB in addition, but {:.1f} "
       "MB are available; lower --steps, run.global_batch or the model",
       steps, 1e-6 * static_cast<double>(recordings), 1e-6 * static_cast<double>(passing),
       1e-6 * static_cast<double>(available));
}

Recording run(const Layout& layout, int steps, const train::JobSession::Load& load) {
  const Stopwatch watch;
  Recording recording = train::record(layout.job, steps, load);
  std::string losses;
  for (const double loss : recording.losses) losses += fmt::format(" {:.6f}", loss);
  fmt::print("ran       {}: {} rank{}, {:.1f} s, loss{}\n", layout.name, layout.ranks(),
             layout.ranks() == 1 ? "" : "s", watch.seconds(), losses);
  if (!recording.ended.empty()) fmt::print("          ended: {}\n", recording.ended);
  std::fflush(stdout);
  return recording;
}

std::string element(const Comparison& row) {
  std::string text;
  const auto add = [&](std::string_view what, std::int64_t index) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", what, index);
  };
  if (row.kind != Kind::kActivation) {
    for (const std::int64_t index : row.at)
      text += fmt::format("{}{}", text.empty() ? "(" : ", ", index);
    return text + ")";
  }
  if (row.micro_batch < 0) return "the whole batch";
  add("micro-batch", row.micro_batch);
  if (row.loss || row.at.empty()) return text;
  add(row.by_sample ? "sample" : "row", row.at[0]);
  for (std::size_t dim = 1; dim < row.at.size(); ++dim)
    add(dim + 1 == row.at.size() ? "dim" : "token", row.at[dim]);
  return text;
}

std::string who(const Comparison& row) {
  if (row.peer < 0) return fmt::format("rank {}", row.rank);
  return fmt::format("rank {} unlike rank {}{}", row.rank, row.peer,
                     row.first_run ? " of the first layout" : "");
}

void print_row(const Comparison& row) {
  fmt::print("{:>5}  {:<10}  {:<36}  ", step_name(row.step), name(row.kind), row.name);
  if (!row.compared)
    fmt::print("not compared: {}\n", row.why_not);
  else if (row.rows)
    fmt::print("{:>8}  {:>8}  {}: {} rows, {} rows, {}\n", "inf", "rows", element(row), row.rows->a,
               row.rows->b, who(row));
  else if (row.at.empty())
    fmt::print("{:>8}  {:>8}  no rows\n", 0, 0);
  else
    fmt::print("{:>8.1e}  {:>8.2g}  {}: {:.6g} {:+.1e}, {}\n", row.relative,
               static_cast<double>(row.ulps), element(row), row.a, row.b - row.a, who(row));
}

void print_table(const std::vector<Comparison>& rows, double tolerance, bool all) {
  constexpr int kShown = 10;
  int shown = 0;
  int beyond = 0;
  for (const Comparison& row : rows) {
    const bool over = row.relative > tolerance;
    beyond += over;
    if (!all && (!over || shown == kShown)) continue;
    if (shown++ == 0)
      fmt::print("{:>5}  {:<10}  {:<36}  {:>8}  {:>8}  worst element\n", "step", "kind", "tensor",
                 "relative", "ulps");
    print_row(row);
  }
  if (beyond > shown) fmt::print("       and {} more; --all shows every tensor\n", beyond - shown);
}

void print_summary(const std::vector<Comparison>& rows, double tolerance) {
  struct Sum {
    int tensors = 0, beyond = 0, equal = 0, apart = 0, strays = 0;
    const Comparison* worst = nullptr;
  };
  std::map<std::pair<int, Kind>, Sum> sums;
  for (const Comparison& row : rows) {
    Sum& sum = sums[{row.step, row.kind}];
    ++sum.tensors;
    sum.strays += row.strays;
    sum.apart += !row.compared;
    if (!row.compared) continue;
    sum.beyond += row.relative > tolerance;
    sum.equal += row.ulps == 0;
    if (sum.worst == nullptr || row.relative > sum.worst->relative) sum.worst = &row;
  }
  for (const auto& [key, sum] : sums) {
    fmt::print("summary   step {}: {} {}{}, {} equal to the last bit, {} beyond",
               step_name(key.first), sum.tensors, name(key.second), sum.tensors == 1 ? "" : "s",
               sum.equal, sum.beyond);
    if (sum.apart > 0) fmt::print(", {} not compared", sum.apart);
    if (sum.worst != nullptr && sum.worst->relative > 0)
      fmt::print("; largest {:.1e}, {}", sum.worst->relative, sum.worst->name);
    if (sum.strays > 0)
      fmt::print("; {} cop{} with bits unlike a peer's", sum.strays, sum.strays == 1 ? "y" : "ies");
    fmt::print("\n");
  }
}

void print_parting(const Comparison& row, const std::string& a, const std::string& b) {
  const std::size_t width = std::max(a.size(), b.size());
  fmt::print("parts at  step {}, {} {}: {}, {}\n", step_name(row.step), name(row.kind), row.name,
             element(row), who(row));
  if (row.rows) {
    fmt::print("          {:<{}}  {} rows\n", a, width, row.rows->a);
    fmt::print("          {:<{}}  {} rows\n", b, width, row.rows->b);
    return;
  }
  fmt::print("          {:<{}}  {:.17g}\n", a, width, row.a);
  fmt::print("          {:<{}}  {:.17g}\n", b, width, row.b);
  fmt::print("          {} ulps of {} apart, relative norm {:.2e}\n", row.ulps, name(row.type),
             row.relative);
}

// Tensors without a verdict: those of each reason, the first few by name.
void print_not_compared(const std::vector<Comparison>& rows) {
  constexpr int kNamed = 4;
  std::map<std::string, std::pair<int, std::string>> reasons;
  for (const Comparison& row : rows) {
    if (row.compared) continue;
    auto& [count, names] = reasons[row.why_not];
    if (count++ < kNamed)
      names += fmt::format("{}step {} {}", count == 1 ? "" : ", ", step_name(row.step), row.name);
  }
  for (const auto& [why, tensors] : reasons)
    fmt::print("left out  {} tensor{}: {} ({}{})\n", tensors.first, tensors.first == 1 ? "" : "s",
               why, tensors.second, tensors.first > kNamed ? ", ..." : "");
}

// Whether all rows are within the tolerance.
bool report(const Layout& first, const Layout& other, const std::vector<Comparison>& rows,
            double tolerance, bool all) {
  fmt::print("\n{} against {}\n", other.name, first.name);
  const auto parting =
      std::ranges::find_if(rows, [&](const Comparison& row) { return row.relative > tolerance; });
  const bool within = parting == rows.end();
  if (within)
    fmt::print("within    no tensor parts\n");
  else
    print_parting(*parting, first.name, parting->first_run ? first.name : other.name);
  print_not_compared(rows);
  print_table(rows, tolerance, all);
  print_summary(rows, tolerance);
  return within;
}

// JSON has no numbers that are not finite.
Json number(double value) {
  if (std::isnan(value)) return "nan";
  return std::isfinite(value) ? Json(value) : Json(value > 0 ? "inf" : "-inf");
}

Json as_json(const Layout& other, const std::vector<Comparison>& rows, double tolerance) {
  Json comparison{{"layout", other.name}, {"first", nullptr}, {"rows", Json::array()}};
  for (const Comparison& row : rows) {
    if (comparison["first"].is_null() && row.relative > tolerance)
      comparison["first"] = comparison["rows"].size();
    Json entry{{"step", row.step == train::kStart ? Json("start") : Json(row.step)},
               {"kind", name(row.kind)},
               {"name", row.name}};
    entry["compared"] = row.compared;
    entry["strays"] = row.strays;
    if (!row.compared) entry["why_not"] = row.why_not;
    if (row.compared) {
      entry["relative"] = number(row.relative);
      entry["ulps"] = row.ulps;
      if (row.rows)
        entry["rows"] = {row.rows->a, row.rows->b};
      else
        entry["at"] = row.at;
      if (!row.at.empty()) {
        entry["a"] = number(row.a);
        entry["b"] = number(row.b);
      }
      entry["rank"] = row.rank;
      if (row.micro_batch >= 0) entry["micro_batch"] = row.micro_batch;
      if (row.peer >= 0) entry["peer"] = row.peer;
      if (row.first_run) entry["first_run"] = true;
    }
    comparison["rows"].push_back(std::move(entry));
  }
  return comparison;
}

}  // namespace

int diff(const Arguments& arguments) {
  const Json request = parse_json(read_file(arguments.text("request")), "the request");
  const int steps = request["steps"].get<int>();
  std::vector<Layout> layouts;
  for (const Json& each : request["layouts"])
    layouts.push_back({.name = each["name"].get<std::string>(),
                       .job = config::parse_job(each["job"].get<std::string>(), "a layout")});
  const config::Job& job = layouts[0].job;
  const double tolerance =
      request.value("tolerance", train::default_tolerance(job.precision.compute));
  fmt::print(
      "tolerance {:g} of |a - b| / max(|a|, f x norm of all tensors of that step and kind), "
      "f {:g}\n",
      tolerance, train::kSmallNorm);
  check_memory(layouts, steps);
  // The samples of the first one are those that all train on.
  const auto load = [&, dataset = request.value("dataset", "")](const Layout& layout) {
    return train::load_of(job, layout.job.run.micro_batch, dataset);
  };
  const Recording first = run(layouts[0], steps, load(layouts[0]));
  Json out{{"job", config::print_yaml(job)},
           {"dtype", name(job.precision.compute)},
           {"steps", steps},
           {"tolerance", tolerance},
           {"against", layouts[0].name}};
  bool within = true;
  for (std::size_t i = 1; i < layouts.size(); ++i) {
    const std::vector<Comparison> rows =
        train::compare(first, run(layouts[i], steps, load(layouts[i])));
    within &= report(layouts[0], layouts[i], rows, tolerance, request["all"].get<bool>());
    out["comparisons"].push_back(as_json(layouts[i], rows, tolerance));
  }
  const std::string file = request["json"].get<std::string>();
  if (!file.empty()) write_file_synced(file, out.dump(1) + "\n");
  return within ? 0 : 1;
}

}  // namespace trireme::app
