#include "trireme/config/links/links_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "trireme/base/error.h"
#include "trireme/config/values/yaml.h"

namespace trireme::config {
namespace {

constexpr double kMegabit = 0.125e6;  // bytes

// A map of the file.
class LinkMap {
 public:
  LinkMap(const std::string& what, const YamlNode& node, std::string name)
      : what_(what), node_(node), name_(std::move(name)) {
    if (node.kind != YamlNode::Kind::kMap) refuse(node, "has no map; needs keys with values");
  }

  [[noreturn]] void refuse(const YamlNode& at, std::string_view why) const {
    fail(ErrorKind::kUsage, "{}:{}:{}: {}: {}", what_, at.line, at.column, name_, why);
  }
  const YamlNode* find(std::string_view key) const {
    const auto found = std::ranges::find(node_.keys, key, &YamlNode::text);
    return found == node_.keys.end()
               ? nullptr
               : &node_.items[static_cast<std::size_t>(found - node_.keys.begin())];
  }
  const YamlNode& at(std::string_view key) const {
    const YamlNode* value = find(key);
    if (value == nullptr) refuse(node_, fmt::format("has no {}", key));
    return *value;
  }
  void only(std::initializer_list<std::string_view> keys) const {
    for (const YamlNode& key : node_.keys)
      if (std::ranges::find(keys, key.text) == keys.end())
        refuse(key, fmt::format("unknown key {}; keys here are {}", quote(key.text),
                                fmt::join(keys, ", ")));
  }
  double rate(std::string_view key) const {
    const YamlNode& value = at(key);
    const auto read = link_rate(value.text);
    if (!read)
      refuse(value, fmt::format("{}: {}; needs a positive number with the unit Mb/s or Gb/s, such "
                                "as 95Mb/s",
                                key, quote(value.text)));
    return *read;
  }
  bool flag(std::string_view key) const {
    const YamlNode* value = find(key);
    if (value != nullptr && value->text != "true" && value->text != "false")
      refuse(*value, fmt::format("{}: {}; needs true or false", key, quote(value->text)));
    return value != nullptr && value->text == "true";
  }
  double latency() const {
    const YamlNode* value = find("latency_s");
    if (value == nullptr) return 0;
    double read = -1;
    const char* const end = value->text.data() + value->text.size();
    const auto [stop, error] = std::from_chars(value->text.data(), end, read);
    if (error != std::errc() || stop != end || !(read >= 0 && read <= 100))
      refuse(*value, fmt::format("latency_s: {}; needs 0 to 100 seconds", quote(value->text)));
    return read;
  }

 private:
  const std::string& what_;
  const YamlNode& node_;
  std::string name_;
};

int host_of(const algorithm::Links& links, const LinkMap& pair, std::string_view key) {
  const YamlNode& name = pair.at(key);
  const auto host = std::ranges::find(links.hosts, name.text, &algorithm::HostLink::name);
  if (host == links.hosts.end())
    pair.refuse(name, fmt::format("{}: {} is not among the hosts", key, quote(name.text)));
  return static_cast<int>(host - links.hosts.begin());
}

std::string printed(double rate) { return fmt::format("{:.4g}Mb/s", rate / kMegabit); }

}  // namespace

std::optional<double> link_rate(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  while (unit.starts_with(' ')) unit.remove_prefix(1);
  for (const auto& [name, bytes] : {std::pair{"Mb/s", kMegabit}, std::pair{"Gb/s", 1e3 * kMegabit}})
    if (error == std::errc() && unit == name && number > 0 && number <= 1e6) return number * bytes;
  return std::nullopt;
}

algorithm::Links parse_links(std::string_view text, const std::string& what) {
  const YamlNode root = parse_yaml(text, what);
  const LinkMap file(what, root, "links");
  file.only({"hosts", "pairs", "relay"});
  algorithm::Links links;
  if (file.find("relay") != nullptr) links.relay = file.rate("relay");
  const YamlNode& hosts = file.at("hosts");
  const LinkMap named(what, hosts, "hosts");
  for (std::size_t i = 0; i < hosts.keys.size(); ++i) {
    const LinkMap host(what, hosts.items[i], "hosts." + hosts.keys[i].text);
    host.only({"up", "down", "latency_s"});
    links.hosts.push_back({.name = hosts.keys[i].text,
                           .up = host.rate("up"),
                           .down = host.rate("down"),
                           .latency_s = host.latency()});
  }
  if (links.hosts.size() < 2) named.refuse(hosts, "needs two hosts or more");
  const YamlNode* pairs = file.find("pairs");
  if (pairs == nullptr) return links;
  if (pairs->kind != YamlNode::Kind::kList) file.refuse(*pairs, "pairs: needs a list of maps");
  for (const YamlNode& item : pairs->items) {
    const LinkMap pair(what, item, fmt::format("pairs[{}]", links.pairs.size()));
    pair.only({"from", "to", "rate", "latency_s", "relayed"});
    links.pairs.push_back({.from = host_of(links, pair, "from"),
                           .to = host_of(links, pair, "to"),
                           .rate = pair.rate("rate"),
                           .latency_s = pair.latency(),
                           .relayed = pair.flag("relayed")});
    const algorithm::PairLink& last = links.pairs.back();
    const auto same = [&](const algorithm::PairLink& other) {
      return other.from == last.from && other.to == last.to;
    };
    if (last.from == last.to || std::ranges::count_if(links.pairs, same) > 1)
      pair.refuse(item, "needs two different hosts, and each pair in one direction once");
  }
  return links;
}

algorithm::Links read_links(const Path& file) {
  constexpr std::size_t kMostBytes = std::size_t{1} << 18;
  std::string text;
  try {
    text = read_file(file, kMostBytes);
  } catch (const Error& error) {
    throw Error(ErrorKind::kUsage, error.what());  // nothing has started
  }
  return parse_links(text, file.string());
}

std::string print_links(const algorithm::Links& links) {
  std::string text = "hosts:\n";
  for (const algorithm::HostLink& host : links.hosts)
    text += fmt::format("  {}: {{up: {}, down: {}, latency_s: {:.3g}}}\n", yaml_scalar(host.name),
                        printed(host.up), printed(host.down), host.latency_s);
  text += links.pairs.empty() ? "pairs: []\n" : "pairs:\n";
  for (const algorithm::PairLink& pair : links.pairs)
    text += fmt::format("  - {{from: {}, to: {}, rate: {}, latency_s: {:.3g}{}}}\n",
                        yaml_scalar(links.hosts[pair.from].name),
                        yaml_scalar(links.hosts[pair.to].name), printed(pair.rate), pair.latency_s,
                        pair.relayed ? ", relayed: true" : "");
  if (links.relay > 0) text += fmt::format("relay: {}\n", printed(links.relay));
  return text;
}

}  // namespace trireme::config
