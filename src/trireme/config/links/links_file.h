// File of measured links between hosts, as `trireme links` writes it and people edit it:
//   hosts: {a: {up: 95Mb/s, down: 96Mb/s, latency_s: 0.012}, ...}
//   pairs: [{from: a, to: b, rate: 94Mb/s, latency_s: 0.012}, ...]    # may be left out; relayed: true: by the relay
//   relay: 100Mb/s                                                     # the relay's link, each way
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "trireme/base/fs.h"
#include "trireme/comm/algorithm/links.h"

namespace trireme::config {

// Bytes a second of a positive number of Mb/s or Gb/s (bits); nothing for other texts.
std::optional<double> link_rate(std::string_view text);

// Throws Error{kUsage} beginning with "WHAT:LINE:COLUMN: ".
algorithm::Links parse_links(std::string_view text, const std::string& what);
// Throws Error{kUsage}, also where the file cannot be read.
algorithm::Links read_links(const Path& file);
std::string print_links(const algorithm::Links& links);

}  // namespace trireme::config
