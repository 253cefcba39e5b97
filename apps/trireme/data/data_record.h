// Record of a run's files of pictures, clips and trajectories at its beginning, kept in its directory. Such data sets
// have no digests of their contents.
#pragma once

#include <string>
#include <vector>

#include "apps/trireme/environment.h"
#include "trireme/base/fs.h"

namespace trireme::app {

// Reads every byte of the data and gives a digest of them; of a token dataset compares it with that of dataset.json first.
// Throws Error{kData} naming what differs.
std::string digest_all_bytes(const LocatedDataset& data);

// Compares the data with RUN/data.json. `contents` is their digest_all_bytes(), or empty. Returns nothing if the file
// system shows no change of a file, if the run has no such record, or if the data are no files of samples. Where files
// were changed or are copies, a sample of their contents is compared: Error{kData} if it differs, else a line about it.
std::string compare_data(const Path& run, const LocatedDataset& data, const std::string& contents);

// Names of the classes of the pictures or clips that the run in `run` was trained on, by number; empty where no names are
// known.
std::vector<std::string> recorded_classes(const Path& run);

// Writes RUN/data.json, unless it says the same already.
void keep_data_record(const Path& run, const LocatedDataset& data, const std::string& contents);

}  // namespace trireme::app
