#include "data_record.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "trireme/base/error.h"
#include "trireme/base/hash.h"
#include "trireme/base/json.h"
#include "trireme/base/os/file_facts.h"
#include "trireme/formats/content_digest.h"
#include "trireme/formats/json_fields.h"

namespace trireme::app {
namespace {

constexpr char kDataRecordName[] = "data.json", kDataRecordFormat[] = "trireme.run_data";
constexpr std::int64_t kDataRecordVersion = 1;

struct DataRecord {
  std::string facts;     // of the files; empty: they had only just been written
  std::string sample;    // of their contents
  std::string contents;  // a digest of all of these; empty: never read as a whole
  std::vector<std::string> classes;
  bool operator==(const DataRecord&) const = default;
};

std::string facts_of_files(const LocatedDataset& data) {
  const std::optional<std::uint64_t> facts = os::facts_digest(data.files);
  return facts ? hex64(*facts) : "";
}

std::string sample_of_files(const LocatedDataset& data) {
  return hex64(formats::content_digest(data.files, formats::Contents::kSampled));
}

std::optional<DataRecord> read_record(const Path& run) {
  const Path path = run / kDataRecordName;
  std::error_code absent;
  if (!std::filesystem::is_regular_file(path, absent)) return std::nullopt;
  const Json json = parse_json(read_file(path), path.string());
  const formats::JsonFields fields(json, path.string());
  fields.need_format(kDataRecordFormat, kDataRecordVersion,
                     "delete it to continue without comparing the data");
  DataRecord record{.facts = fields.string("facts"),
                    .sample = fields.string("sample"),
                    .contents = fields.string("contents"),
                    .classes = {}};
  for (const Json& name : fields.array("classes")) {
    if (!name.is_string()) fail(ErrorKind::kData, "{}: a class that has no name", path.string());
    record.classes.push_back(name.get<std::string>());
  }
  return record;
}

}  // namespace

std::string digest_all_bytes(const LocatedDataset& data) {
  if (data.text) text::verify_dataset(data.directory);
  if (data.files.empty()) return {};
  return hex64(formats::content_digest(data.files, formats::Contents::kAll));
}

std::string compare_data(const Path& run, const LocatedDataset& data, const std::string& contents) {
  if (data.files.empty()) return {};
  const std::optional<DataRecord> before = read_record(run);
  if (!before) return {};
  if (!contents.empty() && !before->contents.empty()) {
    if (contents == before->contents) return {};
    fail(ErrorKind::kData,
         "{}: its files have other contents than when {} was verified (digest {}, was {}); restore "
         "them, or train with another --out",
         data.directory.string(), run.string(), contents, before->contents);
  }
  if (!before->facts.empty() && before->facts == facts_of_files(data)) return {};
  const std::string sample = sample_of_files(data);
  if (sample != before->sample)
    fail(ErrorKind::kData,
         "{}: its files have the names and sizes that they had when {} began, but other contents "
         "(sampled digest {}, was {}); restore them, or train with another --out",
         data.directory.string(), run.string(), sample, before->sample);
  return fmt::format(
      "files of {} were written or copied since the run began; a sample of their "
      "contents is as it was",
      data.directory.string());
}

std::vector<std::string> recorded_classes(const Path& run) {
  const std::optional<DataRecord> record = read_record(run);
  return record ? record->classes : std::vector<std::string>();
}

void keep_data_record(const Path& run, const LocatedDataset& data, const std::string& contents) {
  if (data.files.empty()) return;
  const std::optional<DataRecord> before = read_record(run);
  const std::string known = before ? before->contents : "";
  const DataRecord now{.facts = facts_of_files(data),
                       .sample = sample_of_files(data),
                       .contents = contents.empty() ? known : contents,
                       .classes = data.classes};
  if (before == now) return;
  const Json json{{"format", kDataRecordFormat}, {"version", kDataRecordVersion},
                  {"facts", now.facts},          {"sample", now.sample},
                  {"contents", now.contents},    {"classes", now.classes}};
  replace_file(run / kDataRecordName, json.dump(1) + "\n");
}

}  // namespace trireme::app
