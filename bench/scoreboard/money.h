// Tables of what runs cost, what their checkpoints take and how often they stop.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "bench/scoreboard/registry.h"

namespace trireme::scoreboard {

// The number that stands behind `words` in the text: of "cost USD at about 14 per node-hour" 14 behind "about ".
std::optional<double> number_behind(std::string_view text, std::string_view words);

// FLOP/s that one GPU reaches when it trains the model, by names as in the table; nothing: not known.
using Achieved =
    std::function<std::optional<double>(const std::string& model, const std::string& accelerator)>;

// By the simulation of a plain layout, and the failures of the cluster, for Llamas on A100s and H100s; nothing for others.
std::optional<double> pretraining_flops(const std::string& model, const std::string& accelerator);

// Hours and dollars of whole runs: from parts, from the MFU that the table has for the model or its source, or from
// `achieved` for rows without one.
Table end_to_end_cost_table(Achieved achieved = {});
Table cloud_prices_table();
Table checkpoint_async_table();
Table reliability_stats_table();

}  // namespace trireme::scoreboard
