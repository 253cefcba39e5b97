// Links and collectives alone: bus bandwidths that NCCL reached, by sizes, and data sheets beside the clusters that are shipped.
#include <fmt/core.h>

#include <cctype>

#include "bench/scoreboard/money.h"
#include "bench/scoreboard/registry.h"
#include "trireme/planner/hardware/cluster_file.h"
#include "trireme/planner/hardware/network.h"

namespace trireme::scoreboard {
namespace {

constexpr const char* kBusBandwidth = "bus bandwidth";
constexpr const char* kLinks = "links of clusters";

bool says(const std::string& text, const char* part) { return text.find(part) != text.npos; }

// "8xH200 NCCL all-reduce busbw" is of a host of DGX H200, "32xB200 .." of four of DGX B200. Where nobody says which machines
// "4-node all-reduce busbw" is of, hosts of 100 GB/s are taken, the only ones of those shipped that 92 GB/s come near to.
std::optional<Cluster> machines(const std::string& link) {
  const std::pair<const char*, const char*> known[] = {{"H200", "dgx-h200"}, {"B200", "dgx-b200"},
                                                       {"H100", "dgx-h100"}, {"A100", "dgx-a100"},
                                                       {"-node", "gcp-a3"},  {"P2P", "dgx-h200"}};
  for (const auto& [word, name] : known)
    if (says(link, word)) return find_cluster(name);
  return std::nullopt;
}

// "16GiB ring", "4 nodes 32KiB": bytes.
std::optional<double> size_in(const std::string& text) {
  const std::pair<const char*, double> units[] = {
      {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}};
  for (const auto& [unit, bytes] : units) {
    const std::size_t end = text.find(unit);
    if (end == text.npos || end == 0) continue;
    std::size_t begin = end;
    while (begin > 0 &&
           (std::isdigit(static_cast<unsigned char>(text[begin - 1])) || text[begin - 1] == '.'))
      --begin;
    const auto number = number_of(std::string_view(text).substr(begin, end - begin));
    if (number && *number > 0) return *number * bytes;
  }
  return std::nullopt;
}

// Ranks of "8xH200", "4-node", whose hosts have eight GPUs.
std::optional<int> ranks_of(const std::string& link, const Cluster& cluster) {
  const auto first = number_behind(link, "");
  if (!first || *first < 1 || *first > cluster.gpus()) return std::nullopt;
  const int count = static_cast<int>(*first);
  if (says(link, "-node")) return count * cluster.gpus_per_host;
  return says(link, "x") ? std::optional(count) : std::nullopt;
}

// Bytes of an all-reduce by seconds, times what a ring sends of it (nccl-tests' bus bandwidth), in GB/s; and that of
// latency and rate alone, the null model.
struct Bandwidth {
  double alone = 0, plain = 0;
};
std::optional<Bandwidth> bus_bandwidth(const std::string& link, const std::string& quantity) {
  std::optional<Cluster> cluster = machines(link);
  if (!cluster) return std::nullopt;
  const auto bytes = size_in(quantity);
  const auto ranks = ranks_of(link, *cluster);
  if (!bytes || !ranks || *ranks < 2) return std::nullopt;
  if (says(quantity, "ring"))
    for (planner::NetworkTier& tier : cluster->tiers) tier.in_switch = 0;
  const Network network(*cluster, mesh::Mesh({.dp_shard = *ranks}));
  const double sent = 2e-9 * (*ranks - 1.0) / *ranks * *bytes;
  const auto kind = plan::Exchange::kAllReduce;
  return Bandwidth{.alone = sent / network.alone(kind, mesh::Axis::kDpShard, *bytes),
                   .plain = sent / network.seconds(kind, mesh::Axis::kDpShard, *bytes)};
}

// A copy of a GiB from one GPU of a host to another.
double copied(const Cluster& cluster) {
  const Network network(cluster, mesh::Mesh({.pp = 2}));
  return 1e-9 * 0x1p30 / network.transfer(0x1p30);
}

// What a data sheet says of a link, in the unit of the row, by a shipped cluster that has it.
std::optional<double> sheet(const std::string& link) {
  const auto inner = [](const char* name) { return 1e-9 * find_cluster(name).tiers.front().rate; };
  const auto outer = [](const char* name) { return find_cluster(name).tiers.back().rate; };
  const auto node = [&](const char* name) {
    return 1e-9 * outer(name) * find_cluster(name).gpus_per_host;
  };
  if (link == "PCIe 3 x16") return 1e-9 * find_cluster("jean-zay-v100").host_rate;
  if (link == "PCIe 4 x16") return 1e-9 * find_cluster("dgx-a100").host_rate;
  if (link == "PCIe 5 x16") return 1e-9 * find_cluster("dgx-h100").host_rate;
  if (link == "NVLink 2") return inner("jean-zay-v100");
  if (link == "NVLink 3") return inner("dgx-a100");
  if (link == "NVLink 4") return inner("dgx-h100");
  if (link == "NVLink 5") return inner("dgx-b200");
  if (link == "InfiniBand HDR") return 8e-9 * outer("dgx-a100");
  if (link == "InfiniBand NDR") return 8e-9 * outer("dgx-h100");
  if (link == "DGX A100 node") return node("dgx-a100");
  if (link == "DGX H100 node") return node("dgx-h100");
  if (link == "AWS P4d node") return node("aws-p4d");
  if (link == "AWS P5 node") return node("aws-p5");
  if (link == "GCP A3 High node") return node("gcp-a3");
  return std::nullopt;
}

void score_bandwidth(const std::string& link, const std::string& quantity, Case& one) {
  constexpr double kRounding = 0.005, kBar = 0.08;  // values have two decimals
  const auto forecast = bus_bandwidth(link, quantity);
  if (!forecast) {
    one.unscored = "of machines that no shipped cluster has, or ranks or bytes are not told";
    return;
  }
  if (kRounding > kBar * one.measured) one.unscored = "printed with too few digits";
  one.forecast = forecast->alone;
  one.null = forecast->plain;
}

Case one_case(const Csv& csv, std::size_t row) {
  const std::string &link = csv.text(row, "link"), &quantity = csv.text(row, "quantity");
  Case one{.row = link + ", " + quantity,
           .quantity = kBusBandwidth,
           .unit = csv.text(row, "unit"),
           .group = link,
           .measured = csv.need(row, "value"),
           .lines = {csv.line(row)}};
  if (says(link, "busbw")) {
    score_bandwidth(link, quantity, one);
  } else if (says(link, "P2P copy")) {
    if (const auto cluster = machines(link)) {
      one.forecast = copied(*cluster);
      one.null = 1e-9 * cluster->tiers.front().rate;
    }
  } else if (says(link, "efficiency")) {
    one.unscored = "what another simulator assumes";
  } else if (const auto rate = sheet(link)) {
    one.quantity = kLinks;
    one.forecast = as_printed(*rate, csv.text(row, "value"));
  } else {
    one.unscored = "a data sheet's, of a link that no shipped cluster has";
  }
  return one;
}

std::vector<Case> collective_cases(const Csv& csv) {
  std::vector<Case> all;
  for (std::size_t row = 0; row < csv.size(); ++row) all.push_back(one_case(csv, row));
  return all;
}

}  // namespace

Table network_specs_table() {
  return {
      .name = "network_specs",
      .abilities = {{.quantity = kBusBandwidth,
                     .bar = {.mape = 8},
                     .peer = "ASTRA-sim 2.8 to 11.4 (V100), 9.7 to 20.6 (H100), geometric means",
                     .null = "latency and rate: no launch, one protocol"},
                    {.quantity = kLinks, .bar = {.largest = 0}}},
      .cases = collective_cases};
}

}  // namespace trireme::scoreboard
