#include "trireme/data/loaders/tokens/reference.h"

#include <nlohmann/json.hpp>

#include "trireme/base/json.h"
#include "trireme/base/os/staging.h"
#include "trireme/formats/json_fields.h"

namespace trireme::loaders {
namespace {

constexpr char kRecordName[] = "reference.json", kTrainName[] = "train.f64", kValName[] = "val.f64",
               kFormat[] = "trireme.reference";
constexpr std::int64_t kVersion = 1;

ReferenceRecord read_record(const Path& path) {
  constexpr std::size_t kMost = 1 << 16;
  const Json json = parse_json(read_file(path, kMost), path.string());
  const formats::JsonFields fields(json, path.string());
  fields.need_format(kFormat, kVersion, "remove the directory, and the next run writes it");
  return {.data = fields.string("data"),
          .weights = fields.string("weights"),
          .model = fields.string("model"),
          .compute = fields.string("compute")};
}

std::string_view bytes_of(std::span<const double> numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size_bytes()};
}

}  // namespace

Reference::Reference(const Path& directory)
    : record_(read_record(directory / kRecordName)),
      train_(directory / kTrainName),
      val_(directory / kValName) {}

std::span<const double> Reference::numbers(const MappedFile& file) {
  return {reinterpret_cast<const double*>(file.bytes().data()),
          file.bytes().size() / sizeof(double)};
}

bool is_reference(const Path& directory) {
  std::error_code cause;
  return std::filesystem::exists(directory / kRecordName, cause);
}

void write_reference(const Path& directory, const ReferenceRecord& record,
                     std::span<const double> train, std::span<const double> val) {
  os::Staging staging(directory);
  write_file_synced(staging.path() / kTrainName, bytes_of(train));
  write_file_synced(staging.path() / kValName, bytes_of(val));
  const Json json{{"format", kFormat},     {"version", kVersion},
                  {"data", record.data},   {"weights", record.weights},
                  {"model", record.model}, {"compute", record.compute}};
  write_file_synced(staging.path() / kRecordName, json.dump(1) + "\n");
  staging.publish();
}

}  // namespace trireme::loaders
