// From a job's `data` section to a prepared dataset directory.
#pragma once

#include <functional>
#include <string>

#include "trireme/config/job.h"
#include "trireme/formats/dataset.h"

namespace trireme::app {

struct LocatedDataset {
  formats::Dataset dataset;
  std::string tokenizer;  // as data.tokenizer spells it: what the resolved job says
  std::string what;       // one line for people
  bool quickstart = false;
};

// data.path empty: the quick start's text; a dataset directory: that; a text file or a directory of
// text: these. Text is prepared once, into the cache, keyed by files, sizes, times, tokenizer and
// split; two processes that want the same wait for each other. A prepared dataset has its
// tokenizer: data.tokenizer must be left at "bytes" or say the same. `say` is told before something
// slow. Throws Error{kData} for a wrong path, Error{kUsage} for a contradiction.
LocatedDataset locate_dataset(const config::Data& data,
                              const std::function<void(const std::string&)>& say);

// What is known of the vocabulary before any text is read: 256 for bytes, N for bpe:N, else 0.
std::int64_t known_vocabulary(const config::Data& data);

}  // namespace trireme::app
