#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "trireme/base/error.h"
#include "trireme/checkpoint/convert/config_classes.h"
#include "trireme/checkpoint/convert/families.h"
#include "trireme/checkpoint/convert/hugging_face.h"
#include "trireme/config/families.h"
#include "trireme/formats/shown.h"

namespace trireme::convert {
namespace {

using config::Job;
using formats::JsonFields;

// Of a config.json; H-Net's own has lists and no model_type.
std::string type_of(const JsonFields& fields) {
  const bool hnet = fields.has("arch_layout") && !fields.has("model_type");
  return hnet ? "hnet" : fields.string("model_type");
}

// In the order of the table, each once.
std::vector<std::string_view> readable_types() {
  std::vector<std::string_view> types;
  for (const FamilyFiles& files : family_files())
    for (const HuggingFaceClass& entry : files.classes)
      if (std::ranges::find(types, entry.type) == types.end()) types.push_back(entry.type);
  return types;
}

// What `job` says that the class of an entry cannot.
std::vector<config::Difference> beyond(const HuggingFaceClass& entry, const Job& job) {
  Job fixed = job;
  entry.fix(fixed);
  return config::diff(fixed, job);
}

struct Entry {
  config::Family family{};
  const HuggingFaceClass* of = nullptr;
};

// The class of a model without its head: GPT2Model of GPT2LMHeadModel.
std::string bare(std::string name) {
  for (const std::string_view head : {"LMHeadModel", "ForCausalLM"})
    if (name.ends_with(head)) return name.substr(0, name.size() - head.size()) + "Model";
  return name;
}

// Of the classes of a model_type the one that `architectures` names; the first where the file has no such key.
Entry entry_of(const JsonFields& fields, const std::string& type) {
  std::vector<Entry> all;
  for (const FamilyFiles& files : family_files())
    for (const HuggingFaceClass& entry : files.classes)
      if (type == entry.type) all.push_back({files.family, &entry});
  if (all.empty())
    fail(ErrorKind::kData, "{}: model_type is {}; {} can be read (hnet by its arch_layout)",
         fields.where(), formats::shown(type), fmt::join(readable_types(), ", "));
  const Json names = says(fields, "architectures") ? fields.array("architectures") : Json::array();
  if (names.empty()) return all.front();
  std::vector<std::string_view> readable;
  for (const Entry& entry : all) {
    const char* name = entry.of->architecture;
    if (name == nullptr || names == Json::array({name}) || names == Json::array({bare(name)}))
      return entry;
    readable.emplace_back(name);
  }
  fail(ErrorKind::kData, "{}: architectures is {}; of model_type {} one class is needed, {}",
       fields.where(), formats::shown_json(names), type, fmt::join(readable, " or "));
}

}  // namespace

const HuggingFaceClass* class_of(const Job& job) {
  const FamilyFiles* files = family_files(job.model.family);
  return files == nullptr
             ? nullptr
             : &*std::ranges::min_element(files->classes, {}, [&](const HuggingFaceClass& entry) {
                 return beyond(entry, job).size();
               });
}

void need(const JsonFields& fields, const char* key, const Json& value) {
  if (says(fields, key) && fields.any(key) != value)
    fail(ErrorKind::kData, "{}: {} is {}, this model family has {} only", fields.where(), key,
         formats::shown_json(fields.any(key)), value.dump());
}

Job within_ranges(const Job& job, const std::string& what) {
  return as_job(what, [&] {
    try {
      return config::parse_job(config::print_yaml(job), "job");
    } catch (const Error& error) {  // without its place in the printed job
      const std::string_view message = error.what();
      throw Error(error.kind(), std::string(message.substr(message.find(": ") + 2)));
    }
  });
}

void need_multiple(const JsonFields& fields, const KeyedSize& size, const KeyedSize& of) {
  if (size.value % of.value != 0)
    fail(ErrorKind::kData, "{}: {} is {}; needs a multiple of {}, which is {}", fields.where(),
         size.key, size.value, of.key, of.value);
}

std::string hugging_face_config(const Job& job) {
  const HuggingFaceClass* entry = class_of(job);
  if (entry == nullptr)
    fail(ErrorKind::kUsage,
         "model.family={}: has no model of Hugging Face's to be written as; {} have",
         config::name(job.model.family), config::names_where([](const config::FamilyInfo& family) {
           return family_files(family.family) != nullptr;
         }));
  for (const config::Difference& key : beyond(*entry, job))
    fail(ErrorKind::kUsage, "{}={}: config.json of a {} cannot describe this; it can have {} only",
         key.key, key.after, entry->architecture != nullptr ? entry->architecture : entry->type,
         key.before);
  Json json;
  if (entry->architecture != nullptr)
    json = {{"architectures", {entry->architecture}}, {"model_type", entry->type}};
  entry->write(job, json);
  return json.dump(2) + "\n";
}

Job job_of_config(const std::string& text, const std::string& what) {
  const Json json = parse_json(text, what);
  const JsonFields fields(json, what);
  const auto [family, entry] = entry_of(fields, type_of(fields));
  if (says(fields, "quantization_config"))
    fail(ErrorKind::kData,
         "{}: quantization_config is {}; needs weights that are not quantized, as the model that "
         "this one was quantized from has",
         what, formats::shown_json(fields.any("quantization_config")));
  Job job;
  job.model.family = family;
  job.data.source = entry->source;
  entry->fix(job);
  as_job(what, [&, read = entry->read] { read(fields, job); });
  return within_ranges(job, what);
}

std::map<std::string, std::string> read_weight_map(const std::string& text,
                                                   const std::string& what) {
  const Json json = parse_json(text, what);
  const Json& map = JsonFields(json, what).object("weight_map");
  if (map.empty())
    fail(ErrorKind::kData, "{}: weight_map is empty; needs the file of each tensor", what);
  std::map<std::string, std::string> files;
  for (const auto& [tensor, file] : map.items()) {
    if (!file.is_string() || !formats::is_plain_file_name(file.get_ref<const std::string&>()))
      fail(ErrorKind::kData, "{}: tensor {} is said to be in {}, which may not name a file", what,
           formats::shown(tensor), formats::shown_json(file));
    files.emplace(tensor, file.get<std::string>());
  }
  return files;
}

}  // namespace trireme::convert
