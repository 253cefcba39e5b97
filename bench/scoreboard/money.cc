// Prices, checkpoints and failures: what follows from rows beside each other.
#include "bench/scoreboard/money.h"

#include <fmt/core.h>

#include <charconv>

#include "trireme/planner/hardware/cluster_file.h"
#include "trireme/planner/hardware/money.h"

namespace trireme::scoreboard {
namespace {

Case case_of(const Csv& csv, std::size_t row, std::string name, std::string quantity) {
  return {.row = std::move(name), .quantity = std::move(quantity), .lines = {csv.line(row)}};
}

// "compute 576, storage 2, egress 10, total 588 USD"
std::vector<Case> bills(const Csv& csv) {
  std::vector<Case> all;
  for (std::size_t row = 0; row < csv.size(); ++row) {
    const std::string& note = csv.text(row, "note");
    Case made =
        case_of(csv, row, csv.text(row, "kind") + ", " + csv.text(row, "provider"), "dollars");
    made.group = csv.text(row, "kind");
    const auto total = number_behind(note, "total ");
    std::vector<Item> items;
    for (const char* name : {"compute", "storage", "egress"})
      if (const auto dollars = number_behind(note, std::string(name) + " "))
        items.push_back({name, *dollars});
    if (total && items.size() == 3) {
      made.measured = *total;
      made.forecast = dollars(items);
    } else {
      made.unscored = "a price, not a run";
    }
    all.push_back(std::move(made));
  }
  return all;
}

// A checkpoint holds weights in 16 bits, and in fp32 master weights and two moments.
constexpr double kBytesPerParam = 14;
constexpr double kTrillionModel = 1.008e12;  // SC21's, of 128 layers of 25600
constexpr double kPrinted = 1024e9;          // its 14,112 GB are 13.8 "TB" if 1024 of them are one

std::optional<double> of_system(const Csv& csv, std::size_t row, std::string_view ending) {
  for (std::size_t other = 0; other < csv.size(); ++other)
    if (csv.text(other, "system") == csv.text(row, "system") &&
        csv.text(other, "quantity").ends_with(ending))
      return csv.number(other, "value");
  return std::nullopt;
}

std::vector<Case> checkpoints(const Csv& csv) {
  std::vector<Case> all;
  for (std::size_t row = 0; row < csv.size(); ++row) {
    const std::string& quantity = csv.text(row, "quantity");
    Case made = case_of(csv, row, csv.text(row, "system") + ": " + quantity, "stalls");
    made.group = csv.text(row, "system");
    made.unit = csv.text(row, "unit");
    made.measured = csv.need(row, "value");
    const auto waits = of_system(csv, row, ", synchronous save");
    const auto behind = of_system(csv, row, ", asynchronous save");
    if (quantity == "checkpoint size" && csv.text(row, "system") == "SC21 1T") {
      made.quantity = "sizes";
      made.forecast =
          as_printed(kBytesPerParam * kTrillionModel / kPrinted, csv.text(row, "value"));
    } else if (quantity == "reduction" && waits && behind) {
      made.forecast = *waits / *behind;
    } else {
      made.unscored = "no row has both its bytes and its rate";
    }
    all.push_back(std::move(made));
  }
  return all;
}

// "MTTF of a 1024-GPU job"
std::optional<double> gpus_of_job(const Csv& csv, std::size_t row) {
  const std::string& component = csv.text(row, "component");
  return component.ends_with("-GPU job") ? number_behind(component, "MTTF of a ") : std::nullopt;
}

bool is_projection(const Csv& csv, std::size_t row) {
  return csv.text(row, "status").ends_with("projection");
}

// Of all failures one for each GPU and time: from the rate that a projection began with, or from the measured row before.
std::optional<double> mttf_forecast(const Csv& csv, std::size_t row, double gpus) {
  constexpr double kGpusPerNode = 8;
  for (std::size_t other = 0; other < csv.size(); ++other) {
    const std::string& count = csv.text(other, "count");
    if (is_projection(csv, row)) {
      if (!count.ends_with(" per 1000 node-days")) continue;
      const double per_gpu_hour = *number_behind(count, "") / (1000 * 24 * kGpusPerNode);
      return mttf_s(per_gpu_hour, gpus) / 3600;
    }
    const auto others = gpus_of_job(csv, other);
    if (others && other < row && !is_projection(csv, other))
      return mttf_s(1 / (*number_behind(count, "") * *others), gpus) / 3600;
  }
  return std::nullopt;
}

// Of Llama 3, at the rate of its unexpected stops and with PyTorch's asynchronous stall.
std::optional<double> effective_percent(const Csv& csv, std::size_t row) {
  constexpr double kStall = 6.3;
  const std::string& source = csv.text(row, "source");
  const auto days = number_behind(source, "): "), gpus = number_behind(source, " days, ");
  for (std::size_t other = 0; other < csv.size(); ++other) {
    if (csv.text(other, "component") != "unexpected" || !days || !gpus) continue;
    const Failures failures{.mttf_s = *days * 86400 / csv.need(other, "count"),
                            .restart_s = find_cluster("llama3").restart_s};
    const Checkpointing checkpoint{.stall_s = kStall, .write_s = kStall};
    return 100 * goodput(failures, checkpoint, best_interval_s(failures, checkpoint)).useful;
  }
  return std::nullopt;
}

std::vector<Case> stops(const Csv& csv) {
  std::vector<Case> all;
  for (std::size_t row = 0; row < csv.size(); ++row) {
    const std::string& component = csv.text(row, "component");
    Case made = case_of(csv, row, component, "hours between stops");
    made.group = csv.text(row, "category");
    const auto gpus = gpus_of_job(csv, row);
    std::optional<double> forecast;
    if (gpus) {
      forecast = mttf_forecast(csv, row, *gpus);
    } else if (component.starts_with("effective training time")) {
      made.quantity = "goodput";
      forecast = effective_percent(csv, row);
    }
    const auto measured = number_behind(csv.text(row, "count"), "");
    if (forecast && measured) {
      made.forecast = *forecast;
      made.measured = *measured;
    } else {
      made.unscored = "counted, not forecast";
    }
    all.push_back(std::move(made));
  }
  return all;
}

}  // namespace

std::optional<double> number_behind(std::string_view text, std::string_view words) {
  const std::size_t at = text.find(words);
  if (at == text.npos) return std::nullopt;
  text.remove_prefix(at + words.size());
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  return number;
}

Table cloud_prices_table() {
  return {.name = "cloud_prices",
          .abilities = {{.quantity = "dollars", .bar = {.largest = 0}, .peer = "arithmetic"}},
          .cases = bills};
}

Table checkpoint_async_table() {
  return {.name = "checkpoint_async",
          .abilities = {{.quantity = "sizes", .bar = {.largest = 0.05}},
                        {.quantity = "stalls", .bar = {.mape = 1}}},
          .cases = checkpoints};
}

Table reliability_stats_table() {
  return {.name = "reliability_stats",
          .abilities = {{.quantity = "hours between stops"},
                        {.quantity = "goodput", .bar = {.mape = 1}}},
          .cases = stops};
}

}  // namespace trireme::scoreboard
