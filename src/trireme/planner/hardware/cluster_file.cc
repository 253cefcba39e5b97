#include "trireme/planner/hardware/cluster_file.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/base/fs.h"
#include "trireme/config/values/nearest.h"
#include "trireme/config/values/yaml.h"
#include "trireme/planner/hardware/hardware_fields.h"
#include "trireme/planner/hardware/machine.h"
#include "trireme/planner/hardware/shipped.h"

namespace trireme::planner {
namespace {

using config::FieldForm;
using config::FieldOf;
using config::Value;
using config::YamlNode;
using Names = std::vector<std::string>;

std::string joined(const Names& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

Names names_of(std::span<const ShippedFile> files) {
  Names names;
  for (const ShippedFile& file : files) names.emplace_back(file.name);
  return names;
}

const ShippedFile* find_shipped(std::span<const ShippedFile> files, const std::string& name) {
  const auto file = std::ranges::find(files, name, &ShippedFile::name);
  return file == files.end() ? nullptr : &*file;
}

// "did you mean A?" where a name is near, else all of them.
std::string hint(const std::string& written, const Names& names, std::string_view what) {
  return config::nearest(written, names).value_or(fmt::format("{} are {}", what, joined(names)));
}

// A map of the file: what its keys are called from outside, and where they stand.
struct Section {
  const std::string& what;
  const YamlNode& map;
  std::string path;  // "", "gpu.", "tiers[0]."

  std::string place(const YamlNode& node) const {
    return fmt::format("{}:{}:{}: ", what, node.line, node.column);
  }
  // The value of a key of this map, if it is present.
  const YamlNode* value(std::string_view key) const {
    const auto found = std::ranges::find(map.keys, key, &YamlNode::text);
    return found == map.keys.end() ? nullptr : &map.items[index(found)];
  }
  // Where a complaint about the key belongs: the map where it is missing, the key where its value is.
  const YamlNode& at(std::string_view key) const {
    const auto found = std::ranges::find(map.keys, key, &YamlNode::text);
    if (found == map.keys.end()) return map;
    const YamlNode& value = map.items[index(found)];
    return value.kind == YamlNode::Kind::kNull ? *found : value;
  }
  std::size_t index(std::vector<YamlNode>::const_iterator key) const {
    return static_cast<std::size_t>(key - map.keys.begin());
  }
  [[noreturn]] void refuse(std::string_view key, const std::string& why) const {
    fail(ErrorKind::kUsage, "{}{}{}: {}", place(at(key)), path, key, why);
  }
};

// The words that may stand where `inner` leads: "gemm" for "efficiency.gemm" within "efficiency.".
template <typename Owner>
Names words_within(const FieldList<Owner>& fields, std::string_view inner) {
  Names words;
  for (const FieldOf<Owner>& field : fields) {
    if (!field.key.starts_with(inner)) continue;
    std::string word = field.key.substr(inner.size());
    word.resize(std::min(word.size(), word.find('.')));
    if (words.empty() || words.back() != word) words.push_back(std::move(word));
  }
  return words;
}

void need_map(const Section& in, std::string_view key, const YamlNode& node) {
  if (node.kind == YamlNode::Kind::kMap) return;
  const YamlNode& there = node.kind == YamlNode::Kind::kNull ? in.at(key) : node;
  fail(ErrorKind::kUsage, "{}{}{}: has no map; needs its keys with their values", in.place(there),
       in.path, key);
}

// Sets what the map says of `owner`; keys in `others` are somebody else's.
template <typename Owner>
void read_fields(Owner& owner, const FieldList<Owner>& fields, const Section& in,
                 const Names& others = {}, const std::string& inner = "") {
  const Names words = words_within(fields, inner);
  for (std::size_t i = 0; i < in.map.keys.size(); ++i) {
    const YamlNode& key = in.map.keys[i];
    const YamlNode& value = in.map.items[i];
    if (std::ranges::count(others, key.text) > 0) continue;
    const auto field = std::ranges::find(fields, inner + key.text, &FieldOf<Owner>::key);
    if (field != fields.end()) {
      FieldForm named = *field;
      named.key = in.path + key.text;
      const bool missing = value.kind == YamlNode::Kind::kNull;
      field->set(owner, config::read_value(named, value, in.place(missing ? key : value)));
    } else if (std::ranges::count(words, key.text) > 0) {
      need_map(in, key.text, value);
      read_fields(owner, fields, Section{in.what, value, in.path + key.text + "."}, {},
                  inner + key.text + ".");
    } else {
      Names all = words;
      all.insert(all.end(), others.begin(), others.end());
      fail(ErrorKind::kUsage, "{}unknown key {}; {}", in.place(key),
           config::quote(in.path + key.text), hint(key.text, all, "keys here"));
    }
  }
}

template <typename Owner>
void need_all(const Owner& owner, const FieldList<Owner>& fields, const Section& in) {
  for (const FieldOf<Owner>& field : fields)
    if (is_missing(field, owner)) in.refuse(field.key, "missing; needs " + config::describe(field));
}

void need_name(const std::string& name, std::string_view key, const Section& in) {
  if (name.empty()) in.refuse(key, "missing or empty; needs a name");
}

// `name` is in the map under `key`.
Gpu shipped_gpu(const std::string& name, std::string_view key, const Section& in) {
  const ShippedFile* file = find_shipped(shipped_gpu_files(), name);
  if (file == nullptr)
    in.refuse(key, fmt::format("{} is not shipped; {}", config::quote(name),
                               hint(name, shipped_gpus(), "GPUs")));
  return find_gpu(name);
}

// `gpu` as the map changes it.
Gpu read_gpu(const Section& in, Gpu gpu) {
  if (const YamlNode* like = in.value("like")) gpu = shipped_gpu(like->text, "like", in);
  gpu.fitted = false;  // what is changed was not measured
  read_fields(gpu, gpu_fields(), in, {"like"});
  need_name(gpu.name, "name", in);
  need_all(gpu, gpu_fields(), in);
  if (gpu.half_flops == 0 && gpu.fp32_flops == 0)
    in.refuse("half_flops", "0, and fp32_flops 0; needs a peak to compute with");
  return gpu;
}

// The maps of a list under `key`, each read by `read`.
template <typename Made, typename Read>
std::vector<Made> read_list(std::string_view key, const Section& in, Read read) {
  const YamlNode& list = in.at(key);
  if (list.kind != YamlNode::Kind::kList) in.refuse(key, "has no list; needs a list of maps");
  std::vector<Made> made;
  for (const YamlNode& item : list.items) {
    const std::string name = fmt::format("{}[{}]", key, made.size());
    need_map(in, name, item);
    made.push_back(read(Section{in.what, item, in.path + name + "."}));
  }
  return made;
}

NetworkTier read_tier(const Section& in) {
  NetworkTier tier;
  read_fields(tier, tier_fields(), in);
  need_name(tier.name, "name", in);
  need_all(tier, tier_fields(), in);
  return tier;
}

Price read_price(const Section& in) {
  Price price;
  read_fields(price, price_fields(), in);
  need_name(price.provider, "provider", in);
  need_all(price, price_fields(), in);
  if (price.on_demand == 0 && price.spot == 0)
    in.refuse("on_demand", "0, and spot 0; needs a price of one of them");
  if (price.on_demand > 0 && price.spot > price.on_demand)
    in.refuse("spot", fmt::format("{} is above on_demand {}; needs at most that", price.spot,
                                  price.on_demand));
  return price;
}

// A tier joins whole groups of the one before, hosts cut no group, and the last one reaches every rank.
void check_tiers(const Cluster& cluster, const Section& in) {
  const YamlNode& list = in.at("tiers");
  const bool own = list.kind == YamlNode::Kind::kList && !list.items.empty();
  const auto refuse = [&](std::size_t i, const std::string& why) {
    const std::string name = fmt::format("tiers[{}].", i);
    Section{in.what, own ? list.items[i] : in.map, name}.refuse("span", why);
  };
  const std::vector<NetworkTier>& tiers = cluster.tiers;
  if (tiers.empty() && cluster.gpus() > 1)
    in.refuse("tiers",
              fmt::format("none for {} GPUs; needs the links that join them", cluster.gpus()));
  const int host = cluster.gpus_per_host;
  for (std::size_t i = 0; i < tiers.size(); ++i) {
    const int span = tiers[i].span;
    if (span == 0) {
      if (i + 1 < tiers.size())
        refuse(i, "0 means all ranks; needs to be the last tier, or a number");
      return;
    }
    if (i > 0 && (span <= tiers[i - 1].span || span % tiers[i - 1].span != 0))
      refuse(i, fmt::format("{} does not hold whole groups of {} within it; needs a larger "
                            "multiple of {}",
                            span, tiers[i - 1].span, tiers[i - 1].span));
    if (host % span != 0 && span % host != 0)
      refuse(i, fmt::format("{} cuts hosts of {}; needs a divisor or a multiple of "
                            "gpus_per_host",
                            span, host));
  }
  if (!tiers.empty() && tiers.back().span < cluster.gpus())
    refuse(
        tiers.size() - 1,
        fmt::format(
            "{} of {} GPUs, and no tier after it; needs a last tier with span 0, which joins all",
            tiers.back().span, cluster.gpus()));
}

void check_prices(const Cluster& cluster, const Section& in) {
  std::set<std::pair<std::string, std::string>> seen;
  for (const Price& price : cluster.prices)
    if (!seen.emplace(price.provider, price.region).second)
      in.refuse("prices", fmt::format("{} appears twice with region {}; needs one price of each",
                                      config::quote(price.provider), config::quote(price.region)));
}

Cluster parse_shipped(const ShippedFile& file) {
  return parse_cluster(file.text, fmt::format("clusters/{}.yaml", file.name));
}

Cluster shipped_cluster(const YamlNode& name, const Section& in) {
  const ShippedFile* file = find_shipped(shipped_cluster_files(), name.text);
  if (file == nullptr)
    in.refuse("like", fmt::format("{} is not shipped; {}", config::quote(name.text),
                                  hint(name.text, shipped_clusters(), "clusters")));
  return parse_shipped(*file);
}

void read_gpu_of(Cluster& cluster, bool inherited, const Section& in) {
  const YamlNode* gpu = in.value("gpu");
  if (gpu == nullptr && inherited) return;
  if (gpu == nullptr || gpu->kind == YamlNode::Kind::kNull)
    in.refuse("gpu",
              "missing; needs a map, or the name of a shipped one: " + joined(shipped_gpus()));
  if (gpu->kind == YamlNode::Kind::kScalar) {
    cluster.gpu = shipped_gpu(gpu->text, "gpu", in);
  } else {
    need_map(in, "gpu", *gpu);
    cluster.gpu = read_gpu(Section{in.what, *gpu, "gpu."}, cluster.gpu);
  }
}

Cluster read_cluster(const Section& in) {
  Cluster cluster;
  const YamlNode* like = in.value("like");
  if (like != nullptr) cluster = shipped_cluster(*like, in);
  read_fields(cluster, cluster_fields(), in, {"like", "gpu", "tiers", "prices"});
  read_gpu_of(cluster, like != nullptr, in);
  if (in.value("tiers") != nullptr) cluster.tiers = read_list<NetworkTier>("tiers", in, read_tier);
  if (in.value("prices") != nullptr) cluster.prices = read_list<Price>("prices", in, read_price);
  need_name(cluster.name, "name", in);
  need_all(cluster, cluster_fields(), in);
  check_tiers(cluster, in);
  if (cluster.reducers.hosts > 0 && cluster.reducers.rate == 0)
    in.refuse("reducers", "hosts without rate; needs the rate of a server's link, such as 1Gb/s");
  check_prices(cluster, in);
  return cluster;
}

YamlNode root_of(std::string_view text, const std::string& what) {
  YamlNode root = config::parse_yaml(text, what);
  if (root.kind != YamlNode::Kind::kMap)
    fail(ErrorKind::kUsage, "{}:1:1: has no map; needs keys with values, such as \"gpu: h100-sxm\"",
         what);
  return root;
}

}  // namespace

Cluster parse_cluster(std::string_view text, const std::string& what) {
  const YamlNode root = root_of(text, what);
  return read_cluster(Section{what, root, ""});
}

std::vector<std::string> shipped_clusters() { return names_of(shipped_cluster_files()); }
std::vector<std::string> shipped_gpus() { return names_of(shipped_gpu_files()); }

Gpu find_gpu(const std::string& name) {
  const ShippedFile* file = find_shipped(shipped_gpu_files(), name);
  if (file == nullptr)
    fail(ErrorKind::kUsage, "no GPU is called {}; {}", config::quote(name),
         hint(name, shipped_gpus(), "GPUs"));
  const std::string what = "clusters/gpus/" + name + ".yaml";
  const YamlNode root = root_of(file->text, what);
  return read_gpu(Section{what, root, ""}, Gpu{});
}

Cluster with_links(Cluster cluster, algorithm::Links links) {
  const bool alone = cluster.hosts == 1;  // its tiers are those inside a host
  cluster.hosts = static_cast<int>(links.hosts.size());
  NetworkTier between = alone || cluster.tiers.empty() ? NetworkTier{} : cluster.tiers.back();
  if (!alone && !cluster.tiers.empty()) cluster.tiers.pop_back();
  if (alone && cluster.gpus_per_host == 1) cluster.tiers.clear();
  if (alone && !cluster.tiers.empty()) cluster.tiers.back().span = cluster.gpus_per_host;
  between.name = "measured links";
  between.span = 0;
  between.efficiency = between.copies = 1;
  between.rate = links.hosts.front().up;
  between.latency_s = 0;
  for (const algorithm::HostLink& host : links.hosts) {
    between.rate = std::min({between.rate, host.up, host.down});
    between.latency_s = std::max(between.latency_s, host.latency_s);
  }
  between.rate /= cluster.gpus_per_host;
  cluster.tiers.push_back(std::move(between));
  cluster.links = std::move(links);
  return cluster;
}

Cluster find_cluster(const std::string& name_or_path) {
  constexpr std::size_t kMostBytes = std::size_t{1} << 20;
  std::error_code ignored;
  if (std::filesystem::is_regular_file(name_or_path, ignored)) {
    std::string text;
    try {
      text = read_file(name_or_path, kMostBytes);
    } catch (const Error& e) {
      throw Error(ErrorKind::kUsage, e.what());  // nothing has started
    }
    if (is_calibration(text)) {
      try {
        return parse_calibration(text, name_or_path).machine;
      } catch (const Error& e) {
        throw Error(ErrorKind::kUsage, e.what());
      }
    }
    return parse_cluster(text, name_or_path);
  }
  const ShippedFile* file = find_shipped(shipped_cluster_files(), name_or_path);
  if (file == nullptr)
    fail(ErrorKind::kUsage, "{} is neither a file nor a shipped cluster; {}",
         config::quote(name_or_path), hint(name_or_path, shipped_clusters(), "clusters"));
  return parse_shipped(*file);
}

}  // namespace trireme::planner
