#include "trireme/config/values/nccl_settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

#include "trireme/base/error.h"
#include "trireme/base/patterns.h"

namespace trireme::config {
namespace {

constexpr int kMostBuffer = 1 << 30;
constexpr int kMostSockets = 64;  // of a connection: socket_nthreads x nsocks_perthread

std::string upper(std::string_view text) {
  std::string upper(text);
  std::ranges::transform(upper, upper.begin(), [](unsigned char c) { return std::toupper(c); });
  return upper;
}

std::optional<int> whole_number(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

bool is_choice(const NcclSetting& setting, std::string_view value) {
  return std::ranges::any_of(
      setting.choices, [&](std::string_view choice) { return upper(choice) == upper(value); });
}

bool takes(const NcclSetting& setting, std::string_view value) {
  if (setting.list) {
    if (value.starts_with('^')) value.remove_prefix(1);
    return std::ranges::all_of(split_list(value),
                               [&](std::string_view part) { return is_choice(setting, part); });
  }
  if (!setting.choices.empty()) return is_choice(setting, value);
  if (setting.most < setting.least) return !value.empty();
  const std::optional<int> number = whole_number(value);
  return number && *number >= setting.least && *number <= setting.most;
}

std::string needed(const NcclSetting& setting) {
  if (!setting.choices.empty())
    return fmt::format("{}{}", setting.list ? "some of " : "one of ",
                       fmt::join(setting.choices, ", "));
  if (setting.most < setting.least) return "a value";
  return fmt::format("a whole number from {} to {}", setting.least, setting.most);
}

const NcclSetting& setting_of(std::string_view name, const std::string& text) {
  const auto settings = nccl_settings();
  const auto found = std::ranges::find(settings, name, &NcclSetting::name);
  if (found != settings.end()) return *found;
  std::vector<std::string_view> names;
  for (const NcclSetting& setting : settings) names.push_back(setting.name);
  fail(ErrorKind::kUsage,
       "network.nccl={}: unknown setting \"{}\"; choose among {}, or set other variables in the "
       "environment",
       text, name, fmt::join(names, ", "));
}

using Values = std::vector<std::pair<std::string_view, std::string>>;

Values values_of(const std::string& text) {
  Values values;
  for (const std::string_view part : split_list(text)) {
    const std::size_t equals = part.find('=');
    if (equals == part.npos && !values.empty()) {
      values.back().second += fmt::format(",{}", part);
      continue;
    }
    const NcclSetting& setting = setting_of(part.substr(0, equals), text);
    if (equals == part.npos)
      fail(ErrorKind::kUsage, "network.nccl={}: {} has no value; needs {}={}", text, part, part,
           needed(setting));
    if (std::ranges::find(values, setting.name, &Values::value_type::first) != values.end())
      fail(ErrorKind::kUsage, "network.nccl={}: {} is set twice; leave one out", text,
           setting.name);
    values.emplace_back(setting.name, part.substr(equals + 1));
  }
  return values;
}

// Numbers of two settings, where both are set.
std::optional<std::pair<int, int>> both(const Values& values, std::string_view first,
                                        std::string_view second) {
  const auto a = std::ranges::find(values, first, &Values::value_type::first),
             b = std::ranges::find(values, second, &Values::value_type::first);
  if (a == values.end() || b == values.end()) return std::nullopt;
  return std::pair(whole_number(a->second).value(), whole_number(b->second).value());
}

void check_together(const Values& values, const std::string& text) {
  if (const auto sockets = both(values, "socket_nthreads", "nsocks_perthread");
      sockets && sockets->first * sockets->second > kMostSockets)
    fail(ErrorKind::kUsage,
         "network.nccl={}: {} socket_nthreads x {} nsocks_perthread; NCCL takes at most {} "
         "sockets, so lower one",
         text, sockets->first, sockets->second, kMostSockets);
  if (const auto ctas = both(values, "min_ctas", "max_ctas"); ctas && ctas->first > ctas->second)
    fail(ErrorKind::kUsage, "network.nccl={}: min_ctas={} is above max_ctas={}; lower it", text,
         ctas->first, ctas->second);
}

// A variable of debugging: the value that counts (empty: any but 0) and its effect.
struct Left {
  const char* variable;
  std::string_view value;
  std::string_view effect;
};
constexpr std::array kLeft = {
    Left{"NCCL_DEBUG", "TRACE", "every rank logs every call"},
    Left{"NCCL_DEBUG", "INFO", "every rank logs its connections"},
    Left{"NCCL_P2P_DISABLE", "", "GPUs of a host exchange through host memory"},
    Left{"NCCL_SHM_DISABLE", "", "ranks of a host exchange over the network"},
    Left{"NCCL_IB_DISABLE", "", "hosts exchange over TCP in place of InfiniBand or RoCE"},
    Left{"NCCL_ALGO", "", "one algorithm serves messages of every size"},
    Left{"NCCL_PROTO", "", "one protocol serves messages of every size"},
    Left{"NCCL_BLOCKING_WAIT", "", "the host waits for every collective"},
    Left{"TORCH_NCCL_BLOCKING_WAIT", "", "the host waits for every collective"},
    Left{"CUDA_LAUNCH_BLOCKING", "", "the host waits for every kernel"},
    Left{"TORCH_DISTRIBUTED_DEBUG", "DETAIL", "every collective is compared among ranks first"},
};

}  // namespace

std::span<const NcclSetting> nccl_settings() {
  static const std::vector<NcclSetting> settings = {
      {.name = "algo",
       .choices = {"Tree", "Ring", "CollnetDirect", "CollnetChain", "NVLS", "NVLSTree", "PAT"},
       .list = true},
      {.name = "proto", .choices = {"LL", "LL128", "Simple"}, .list = true},
      {.name = "buffsize", .least = 1 << 12, .most = kMostBuffer},
      {.name = "nthreads", .choices = {"64", "128", "256", "512"}},
      {.name = "min_ctas", .least = 1, .most = 64},
      {.name = "max_ctas", .least = 1, .most = 64},
      {.name = "socket_ifname"},
      {.name = "socket_nthreads", .least = 1, .most = 16},
      {.name = "nsocks_perthread", .least = 1, .most = kMostSockets},
      {.name = "ib_hca"},
      {.name = "ib_gid_index", .least = -1, .most = 255},
      {.name = "ib_tc", .least = 0, .most = 255},
      {.name = "ib_timeout", .least = 1, .most = 22},
      {.name = "ib_qps_per_connection", .least = 1, .most = 128},
      {.name = "net_gdr_level", .choices = {"LOC", "PIX", "PXB", "PHB", "SYS"}},
      {.name = "p2p_level", .choices = {"LOC", "NVL", "PIX", "PXB", "PHB", "SYS"}},
      {.name = "cross_nic", .least = 0, .most = 2},
      {.name = "nvls_enable", .least = 0, .most = 2},
      {.name = "topo_file"},
      {.name = "debug", .choices = {"VERSION", "WARN", "INFO", "TRACE"}},
  };
  return settings;
}

NcclVariables nccl_variables(const std::string& text) {
  if (text.empty()) return {};
  const Values values = values_of(text);
  NcclVariables variables;
  for (const auto& [name, value] : values) {
    const NcclSetting& setting = setting_of(name, text);
    if (!takes(setting, value))
      fail(ErrorKind::kUsage, "network.nccl={}: {}={}; needs {}", text, name, value,
           needed(setting));
    variables.emplace_back("NCCL_" + upper(name), value);
  }
  check_together(values, text);
  return variables;
}

std::vector<std::string> left_from_debugging(const Variable& variable) {
  std::vector<std::string> found;
  for (const Left& left : kLeft) {
    const std::optional<std::string> value = variable(left.variable);
    if (!value || value->empty() || *value == "0") continue;
    if (!left.value.empty() && upper(*value) != left.value) continue;
    found.push_back(fmt::format("{}={} is set: {}. Unset it unless this is meant", left.variable,
                                *value, left.effect));
  }
  return found;
}

}  // namespace trireme::config
