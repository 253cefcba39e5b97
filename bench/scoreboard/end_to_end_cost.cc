// Hours, days and dollars of whole runs.
#include <fmt/core.h>

#include <algorithm>
#include <charconv>

#include "bench/scoreboard/money.h"
#include "trireme/planner/hardware/cluster_file.h"
#include "trireme/planner/hardware/money.h"

namespace trireme::scoreboard {
namespace {

// What the FLOPs of a token need of a model: 6 P + 12 L h s, forward and backward.
struct Shape {
  std::string_view name;
  double params;
  double layers;
  double hidden;
  double seq;
  double flops_per_token() const { return 6 * params + 12 * layers * hidden * seq; }
};
constexpr Shape kShapes[] = {
    {"GPT-2 124M", 124.4e6, 12, 768, 1024},     {"GPT-2 350M", 354.8e6, 24, 1024, 1024},
    {"GPT-2 774M", 774.0e6, 36, 1280, 1024},    {"GPT-2 1558M", 1557.6e6, 48, 1600, 1024},
    {"GPT-3 175B", 174.6e9, 96, 12288, 2048},   {"Llama-2-7B", 6.738e9, 32, 4096, 4096},
    {"Llama-2-13B", 13.016e9, 40, 5120, 4096},  {"Llama-2-34B", 33.7e9, 48, 8192, 4096},
    {"Llama-2-70B", 68.98e9, 80, 8192, 4096},   {"Llama-3-8B", 8.03e9, 32, 4096, 8192},
    {"Llama-3-70B", 70.55e9, 80, 8192, 8192},   {"Llama-3.1-8B", 8.03e9, 32, 4096, 8192},
    {"Llama-3.1-70B", 70.55e9, 80, 8192, 8192}, {"Llama-3.1-405B", 405.85e9, 126, 16384, 8192},
};
constexpr std::pair<std::string_view, std::string_view> kGpus[] = {
    {"A100-80GB", "a100-80"}, {"A100", "a100-80"}, {"H100-80GB", "h100-sxm"},
    {"H100", "h100-sxm"},     {"H800", "h800"},
};

const Shape* shape_of(const std::string& model) {
  const auto shape = std::ranges::find(kShapes, model, &Shape::name);
  return shape == std::end(kShapes) ? nullptr : &*shape;
}

std::optional<double> peak_of(const std::string& accelerator) {
  for (const auto& [printed, name] : kGpus)
    if (printed == accelerator) return find_gpu(std::string(name)).half_flops;
  return std::nullopt;
}

// "175" billions of "GPT-3 175B", as papers compute with them.
std::optional<double> nominal_params(std::string_view model) {
  const std::size_t space = model.find_last_of(" -");
  if (space == model.npos) return std::nullopt;
  double number = 0;
  const char* end = model.data() + model.size();
  const auto [stop, error] = std::from_chars(model.data() + space + 1, end, number);
  if (error != std::errc() || stop == end) return std::nullopt;
  const double unit = *stop == 'M' ? 1e6 : *stop == 'B' ? 1e9 : *stop == 'T' ? 1e12 : 0;
  return unit > 0 ? std::optional(number * unit) : std::nullopt;
}

class Runs {
 public:
  Runs(const Csv& csv, const Achieved& achieved) : csv_(csv), achieved_(achieved) {}

  std::vector<Case> cases() const {
    std::vector<Case> all;
    for (std::size_t row = 0; row < csv_.size(); ++row) all.push_back(forecast(row));
    return all;
  }

 private:
  const std::string& text(std::size_t row, const char* column) const {
    return csv_.text(row, column);
  }

  Case forecast(std::size_t row) const {
    const std::string& quantity = text(row, "quantity");
    Case made{.row = fmt::format("{}: {}", text(row, "model"), quantity),
              .group = text(row, "model"),
              .measured = csv_.need(row, "value"),
              .lines = {csv_.line(row)}};
    std::optional<double> value;
    if (quantity.starts_with("MFU")) {
      made.unscored = "an input of the rows beside it";
    } else if ((value = sum(row))) {
      made.quantity = "sums";
    } else if ((value = priced(row))) {
      made.quantity = "dollars";
    } else if ((value = days(row)) || (value = timed(row))) {
      made.quantity = "time given FLOP/s";
    } else if ((value = gpu_hours(row))) {
      made.quantity = "GPU-hours";
    } else {
      made.unscored = "the table has neither its parts nor an MFU for it";
    }
    if (value) made.forecast = *value;
    if (made.quantity.empty()) made.quantity = "GPU-hours";
    return made;
  }

  // Of parts that are rows of their own.
  std::optional<double> sum(std::size_t row) const {
    const std::string& quantity = text(row, "quantity");
    const std::string& model = text(row, "model");
    if (quantity.starts_with("total ") && quantity.ends_with("-hours")) return part_hours(model);
    if (quantity.starts_with("total cost USD")) {
      const auto price = number_behind(quantity, "at ");
      const auto hours = part_hours(model);
      if (price && hours) return *price * *hours;
    }
    if (const std::size_t plus = model.find('+'); plus != model.npos) {
      const std::string family = model.substr(0, model.find(' '));
      const std::string first =
          family + "-" + model.substr(family.size() + 1, plus - family.size() - 1);
      const auto a = hours_of(first), b = hours_of(family + "-" + model.substr(plus + 1));
      if (a && b) return *a + *b;
    }
    if (const auto all = number_behind(quantity, "implied ("))
      if (const auto by = number_behind(quantity, "/"))
        return as_printed(*all / *by, text(row, "value"));
    return std::nullopt;
  }

  std::optional<double> part_hours(const std::string& model) const {
    std::optional<double> sum;
    for (std::size_t row = 0; row < csv_.size(); ++row)
      if (text(row, "model") == model && text(row, "quantity").ends_with("-hours") &&
          !text(row, "quantity").starts_with("total "))
        sum = sum.value_or(0) + csv_.need(row, "value");
    return sum;
  }

  std::optional<double> hours_of(const std::string& model) const {
    for (std::size_t row = 0; row < csv_.size(); ++row)
      if (text(row, "model") == model && text(row, "quantity") == "GPU-hours")
        return csv_.need(row, "value");
    return std::nullopt;
  }

  // "cost USD", at the price that the row or its source gives for a node-hour.
  std::optional<double> priced(std::size_t row) const {
    if (!text(row, "quantity").starts_with("cost USD")) return std::nullopt;
    const auto price = from_source(row, [&](std::size_t other) {
      const std::string& quantity = text(other, "quantity");
      return quantity.ends_with("per node-hour") ? number_behind(quantity, "at about ")
                                                 : std::nullopt;
    });
    const auto seconds = seconds_given_mfu(row);
    return price && seconds ? std::optional(*price * *seconds / 3600) : std::nullopt;
  }

  // "days at 140 TF/GPU": 8 TP / (n X) with the parameters of the name, as SC21 computes it.
  std::optional<double> days(std::size_t row) const {
    const auto rate = number_behind(text(row, "quantity"), "days at ");
    const auto params = nominal_params(text(row, "model"));
    const auto gpus = csv_.number(row, "gpus"), tokens = csv_.number(row, "tokens_T");
    if (!rate || !params || !gpus || !tokens) return std::nullopt;
    return train_seconds(8 * *tokens * 1e12 * *params, *gpus, *rate * 1e12) / 86400;
  }

  std::optional<double> timed(std::size_t row) const {
    const std::string& quantity = text(row, "quantity");
    const auto seconds = seconds_given_mfu(row);
    if (!seconds) return std::nullopt;
    if (quantity == "seconds") return *seconds;
    if (quantity == "minutes") return *seconds / 60;
    if (quantity == "hours") return *seconds / 3600;
    if (quantity == "days") return *seconds / 86400;
    if (quantity == "GPU-hours") return *seconds / 3600 * csv_.number(row, "gpus").value_or(1);
    return std::nullopt;
  }

  // The MFU is the model's or, without one, another's of the same source.
  std::optional<double> seconds_given_mfu(std::size_t row) const {
    const auto mfu = from_source(row, [&](std::size_t other) {
      return text(other, "quantity").starts_with("MFU %") ? csv_.number(other, "value")
                                                          : std::nullopt;
    });
    const auto peak = peak_of(text(row, "accelerator"));
    const auto flops = flops_of(row);
    if (!mfu || !peak || !flops) return std::nullopt;
    return train_seconds(*flops, csv_.number(row, "gpus").value_or(1), *peak * *mfu / 100);
  }

  std::optional<double> gpu_hours(std::size_t row) const {
    if (!achieved_ || text(row, "quantity") != "GPU-hours") return std::nullopt;
    const auto rate = achieved_(text(row, "model"), text(row, "accelerator"));
    const auto flops = flops_of(row);
    if (!rate || !flops) return std::nullopt;
    return train_seconds(*flops, 1, *rate) / 3600;
  }

  std::optional<double> flops_of(std::size_t row) const {
    const Shape* shape = shape_of(text(row, "model"));
    const auto tokens = csv_.number(row, "tokens_T");
    if (shape == nullptr || !tokens) return std::nullopt;
    return shape->flops_per_token() * *tokens * 1e12;
  }

  // What `read` finds in a row of the same model, else in one of the same source.
  template <typename Read>
  std::optional<double> from_source(std::size_t row, Read read) const {
    for (const char* column : {"model", "source"})
      for (std::size_t other = 0; other < csv_.size(); ++other)
        if (text(other, column) == text(row, column) &&
            text(other, "source") == text(row, "source"))
          if (const auto found = read(other)) return found;
    return std::nullopt;
  }

  const Csv& csv_;
  const Achieved& achieved_;
};

}  // namespace

Table end_to_end_cost_table(Achieved achieved) {
  return {.name = "end_to_end_cost",
          .abilities = {{.quantity = "sums", .bar = {.largest = 0.1}, .peer = "arithmetic"},
                        {.quantity = "time given FLOP/s", .bar = {.mape = 10}},
                        {.quantity = "dollars", .bar = {.mape = 10}},
                        {.quantity = "GPU-hours", .bar = {.mape = 25}}},
          .cases = [achieved](const Csv& csv) { return Runs(csv, achieved).cases(); }};
}

}  // namespace trireme::scoreboard
