// Clusters as text: the file that reads back the same, and the lists of docs/clusters.md.
#pragma once

#include <string>
#include <vector>

#include "trireme/base/error.h"
#include "trireme/planner/hardware/cluster_file.h"
#include "trireme/planner/hardware/hardware_fields.h"

namespace trireme::planner::cluster_print {

using config::FieldOf;

// One line a field, those with a dot in maps of their own.
template <typename Owner>
std::string lines(const Owner& owner, const FieldList<Owner>& fields, std::string_view indent) {
  std::string text;
  std::string_view open;
  for (const FieldOf<Owner>& field : fields) {
    const std::string_view key = field.key;
    const std::size_t dot = key.find('.');
    const std::string_view map = dot == key.npos ? "" : key.substr(0, dot);
    if (map != open && !map.empty()) text += fmt::format("{}{}:\n", indent, map);
    open = map;
    text += fmt::format("{}{}{}: {}\n", indent, map.empty() ? "" : "  ",
                        map.empty() ? key : key.substr(dot + 1),
                        config::write_value(field, field.get(owner)));
  }
  return text;
}

template <typename Owner>
std::string list(std::string_view key, const std::vector<Owner>& owners,
                 const FieldList<Owner>& fields) {
  if (owners.empty()) return fmt::format("{}: []\n", key);
  std::string text = fmt::format("{}:\n", key);
  for (const Owner& owner : owners) {
    std::string item = lines(owner, fields, "    ");
    item[2] = '-';
    text += item;
  }
  return text;
}

template <typename Owner>
std::string help(const FieldList<Owner>& fields, std::string_view path) {
  const Owner defaults;
  std::string text;
  for (const FieldOf<Owner>& field : fields) {
    const bool name = field.key == "name" || field.key == "provider";
    const std::string otherwise =
        name || is_missing(field)
            ? "needed"
            : fmt::format("default `{}`", config::write_value(field, field.get(defaults)));
    text += fmt::format("- `{}{}` ({}; {}): {}\n", path, field.key, config::describe(field),
                        otherwise, field.doc);
  }
  return text;
}

inline double giga(double number) { return number / 1e9; }

inline std::string table_of_gpus() {
  std::string text =
      "| GPU | bf16 TFLOP/s | fp8 | memory GiB | GB/s | watts |\n|---|---|---|---|---|---|\n";
  for (const std::string& name : shipped_gpus()) {
    const Gpu gpu = find_gpu(name);
    text +=
        fmt::format("| `{}` | {:.4g} | {} | {:.2f} | {:.5g} | {} |\n", name, gpu.half_flops / 1e12,
                    gpu.fp8_flops > 0 ? fmt::format("{:.4g}", gpu.fp8_flops / 1e12) : "-",
                    static_cast<double>(gpu.memory) / 0x1p30, giga(gpu.memory_rate), gpu.watts);
  }
  return text;
}

inline std::string table_of_clusters() {
  std::string text =
      "| cluster | hosts x GPUs | links, GB/s of one GPU each way | prices |\n|---|---|---|---|\n";
  for (const std::string& name : shipped_clusters()) {
    const Cluster cluster = find_cluster(name);
    std::string links;
    for (const NetworkTier& tier : cluster.tiers)
      links += fmt::format("{}{} {:.4g}", links.empty() ? "" : ", ", tier.name, giga(tier.rate));
    text += fmt::format("| `{}` | {} x {} `{}` | {} | {} |\n", name, cluster.hosts,
                        cluster.gpus_per_host, cluster.gpu.name, links, cluster.prices.size());
  }
  return text;
}

// A file that parse_cluster reads.
inline std::string print_cluster(const Cluster& cluster) {
  const std::string outer = lines(cluster, cluster_fields(), "");
  const std::size_t first = outer.find('\n') + 1;  // behind the name
  return outer.substr(0, first) + "gpu:\n" + lines(cluster.gpu, gpu_fields(), "  ") +
         outer.substr(first) + list("tiers", cluster.tiers, tier_fields()) +
         list("prices", cluster.prices, price_fields());
}

// The keys, as Markdown.
inline std::string help_clusters() {
  return fmt::format(
      "### Cluster\n\n{}\n### GPU\n\n{}\n### Tiers, from inner to outer\n\n{}\n### Prices\n\n{}",
      help(cluster_fields(), ""), help(gpu_fields(), "gpu."), help(tier_fields(), "tiers[]."),
      help(price_fields(), "prices[]."));
}

// The page of the shipped GPUs and clusters.
inline std::string shipped_page() {
  return fmt::format(
      "# Shipped clusters\n\n`--cluster` takes the name of a file here. [Cluster "
      "files](../docs/clusters.md) "
      "explains their keys.\n\n## Clusters\n\n{}\n## GPUs\n\n{}",
      table_of_clusters(), table_of_gpus());
}

}  // namespace trireme::planner::cluster_print
