// From a job's `data` section to what is trained on.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "trireme/config/job.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/data/text/dataset.h"
#include "trireme/job/runs/cache.h"

namespace trireme::runs {

struct LocatedDataset {
  std::optional<text::Dataset> text{};     // none: samples are no text
  std::optional<text::Tokenizer> words{};  // of questions about pictures; none: bytes
  Path directory{};  // directory that workers open, for pictures and clips data.path; empty:
                     // synthetic samples
  std::string digest;
  std::int64_t held_out = 0;  // samples for validation; of text: 0, it has tokens
  config::DatasetFacts facts{};
  std::string tokenizer;  // as data.tokenizer spells it: what the resolved job says
  std::string chat{};  // as data.chat spells it, with the template's name; empty: no conversations
  std::string what;    // one line for people
  bool quickstart = false;
  std::vector<Path> files{};  // of pictures, clips and trajectories: what they are read from
  std::vector<std::string> classes{};  // their names, where these are known

  // Of what has tokens of a tokenizer; null: nothing has.
  const text::Tokenizer* vocabulary() const {
    return text ? &text->tokenizer : words ? &*words : nullptr;
  }
};

// Where prepared text is kept, and where the headers lie that are the quick start's text: those that are directories count.
struct DataPlaces {
  FindCache cache;
  std::vector<Path> headers{};
};

// data.path empty: the quick start's text; a dataset directory: that; a text file or a directory of text: these. Text
// is prepared once, into the cache, keyed by files, sizes, times, tokenizer and split; two processes that want the same
// wait for each other. Conversations are prepared in the same way. Pictures, clips and trajectories are listed, not read. A prepared dataset has its tokenizer:
// data.tokenizer must be left at "bytes" or say the same. `say` is called before slow work. Throws Error{kData} for a
// wrong path, Error{kUsage} for a contradiction.
LocatedDataset locate_dataset(const config::Data& data, const DataPlaces& places,
                              const std::function<void(const std::string&)>& say);

// The job with the keys that the data decide. Throws Error{kUsage} for a tokenizer of questions about pictures that lacks
// a token of vlm.tokens.
config::Job on_data(config::Job job, const LocatedDataset& data);

// Samples that a resolved job on this data is validated on: of text windows of model.seq_len tokens.
std::int64_t held_out_samples(const LocatedDataset& data, const config::Job& job);

// Facts that are known before any text is read: the size of its vocabulary (bytes, bpe:N, a dataset's or in a file),
// and for existing pictures and clips the classes with names.
config::DatasetFacts known_facts(const config::Data& data);
// The same where text is not read: of its vocabulary only that of bytes is known.
config::DatasetFacts facts_without_text(const config::Job& job);

}  // namespace trireme::runs
