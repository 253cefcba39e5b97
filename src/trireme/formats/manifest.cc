#include "trireme/formats/manifest.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "trireme/base/error.h"
#include "trireme/base/hash.h"
#include "trireme/formats/digest.h"
#include "trireme/formats/json_fields.h"
#include "trireme/formats/shown.h"

namespace trireme::formats {
namespace {

constexpr char kCheckpointFormat[] = "trireme.checkpoint";
constexpr std::int64_t kCheckpointVersion = 2, kOldestVersion = 1;
constexpr std::size_t kMaxManifestBytes = std::size_t{1} << 31;
constexpr std::size_t kHexDigits = 16;
constexpr std::string_view kTailBegin = ",\n \"digest\": \"";
constexpr std::string_view kTailEnd = "\"\n}\n";
constexpr std::int64_t kMaxElements = std::int64_t{1} << 56;

// Product of a shape; untrusted dimensions may not overflow.
std::int64_t elements(const std::vector<std::int64_t>& shape, const std::string& where) {
  std::int64_t numel = 1;
  for (const std::int64_t dim : shape) {
    if (dim > 0 && numel > kMaxElements / dim)
      fail(ErrorKind::kData, "{}: the shape multiplies to more than 2^56 elements", where);
    numel *= dim;
  }
  return numel;
}

void check_parameters(const ManifestUnit& unit, const std::string& where) {
  std::int64_t at = 0;
  std::set<std::string_view> names;
  for (const ManifestParameter& parameter : unit.parameters) {
    const std::string here = fmt::format("{}: parameter {}", where, shown(parameter.name));
    if (!names.insert(parameter.name).second) fail(ErrorKind::kData, "{}: appears twice", here);
    const std::int64_t numel = elements(parameter.shape, here);
    if (parameter.offset < at || parameter.offset > unit.numel - numel)
      fail(ErrorKind::kData, "{}: elements [{}, {}) overlap another or leave the unit's {}", here,
           parameter.offset, parameter.offset + numel, unit.numel);
    at = parameter.offset + numel;
  }
}

// The slices of one kind, in any order, must cover each element once.
void check_tiling(const ManifestUnit& unit, const std::string& where) {
  std::map<std::string, std::vector<std::pair<std::int64_t, std::int64_t>>> kinds;
  std::map<std::string, std::int64_t> blocks;
  for (const ManifestSlice& slice : unit.slices) {
    kinds[slice.kind].emplace_back(slice.offset, slice.length);
    if (blocks.emplace(slice.kind, slice.block).first->second != slice.block)
      fail(ErrorKind::kData, "{}: slices of {} have blocks of {} and of {} elements", where,
           shown(slice.kind), blocks[slice.kind], slice.block);
  }
  if (!kinds.contains("param") || blocks["param"] != 1)
    fail(ErrorKind::kData, "{}: has no slice of kind param", where);
  for (auto& [kind, ranges] : kinds) {
    std::sort(ranges.begin(), ranges.end());
    const std::int64_t block = blocks[kind];
    const std::int64_t needed = unit.numel / block + (unit.numel % block != 0 ? 1 : 0);
    std::int64_t at = 0;
    for (const auto& [offset, length] : ranges) {
      if (offset != at)
        fail(ErrorKind::kData, "{}: slices of {} {} at element {}", where, shown(kind),
             offset > at ? "leave a hole" : "overlap", std::min(offset, at));
      if (length > needed - offset)
        fail(ErrorKind::kData, "{}: a slice of {} ends at {}, beyond the unit's {} elements", where,
             shown(kind), offset + length, needed);
      at = offset + length;
    }
    if (at != needed)
      fail(ErrorKind::kData, "{}: slices of {} end at {}, {} elements are needed", where,
           shown(kind), at, needed);
  }
}

// Every unit has as many parts as the first, one after the other.
void check_parts(const Manifest& manifest, const std::string& what) {
  const std::int64_t tp = manifest.units.empty() ? 1 : manifest.units[0].tp;
  for (std::size_t u = 0; u < manifest.units.size(); ++u) {
    const ManifestUnit& unit = manifest.units[u];
    const auto part = static_cast<std::int64_t>(u) % tp;
    const bool same = part == 0 || unit.name == manifest.units[u - 1].name;
    if (unit.tp != tp || unit.tp_rank != part || !same)
      fail(ErrorKind::kData, "{}: unit {}: part {} of {} where part {} of {} belongs", what,
           shown(unit.name), unit.tp_rank, unit.tp, part, tp);
  }
  if (static_cast<std::int64_t>(manifest.units.size()) % tp != 0)
    fail(ErrorKind::kData, "{}: the last unit lacks parts: {} entries for {} parts a unit", what,
         manifest.units.size(), tp);
}

void check_layout(const Manifest& manifest, const std::string& what) {
  if (manifest.layout.empty()) return;
  std::int64_t ranks = 1;
  std::set<std::string_view> axes;
  for (const auto& [axis, degree] : manifest.layout) {
    if (!axes.insert(axis).second)
      fail(ErrorKind::kData, "{}: layout: axis {} appears twice", what, shown(axis));
    ranks = degree > manifest.world ? -1 : ranks * degree;  // no axis is longer than the world
    if (ranks < 0 || ranks > manifest.world) break;
  }
  if (ranks != manifest.world)
    fail(ErrorKind::kData, "{}: the degrees of its layout do not multiply to a world of {}", what,
         manifest.world);
}

void check_file(const ManifestFile& file, const std::string& what) {
  if (!is_plain_file_name(file.name) || file.name == kManifestName)
    fail(ErrorKind::kData, "{}: {} may not name a file of a checkpoint", what, shown(file.name));
  constexpr auto kBlock = static_cast<std::int64_t>(FileDigest::kBlock);
  const std::int64_t needed = file.size / kBlock + (file.size % kBlock != 0 ? 1 : 0);
  if (!file.blocks.empty() && std::ssize(file.blocks) != needed)
    fail(ErrorKind::kData, "{}: file {} of {} bytes has hashes of {} blocks, {} are needed", what,
         shown(file.name), file.size, file.blocks.size(), needed);
}

void check(const Manifest& manifest, const std::string& what) {
  check_layout(manifest, what);
  check_parts(manifest, what);
  std::set<std::string_view> files;
  for (const ManifestFile& file : manifest.files) {
    check_file(file, what);
    if (!files.insert(file.name).second)
      fail(ErrorKind::kData, "{}: file {} appears twice", what, shown(file.name));
  }
  std::set<std::pair<std::string_view, std::int64_t>> units;
  std::set<std::pair<std::string_view, std::string_view>> tensors;
  for (const ManifestUnit& unit : manifest.units) {
    const std::string where = fmt::format("{}: unit {}", what, shown(unit.name));
    if (!units.insert({unit.name, unit.tp_rank}).second)
      fail(ErrorKind::kData, "{}: appears twice", where);
    check_parameters(unit, where);
    check_tiling(unit, where);
    for (const ManifestSlice& slice : unit.slices) {
      if (!files.contains(slice.file))
        fail(ErrorKind::kData, "{}: slice in {}, which is not among the files", where,
             shown(slice.file));
      if (!tensors.insert({slice.file, slice.tensor}).second)
        fail(ErrorKind::kData, "{}: tensor {} of {} holds two slices", where, shown(slice.tensor),
             shown(slice.file));
    }
  }
}

Json to_json(const ManifestUnit& unit) {
  Json parameters = Json::array(), slices = Json::array();
  for (const ManifestParameter& p : unit.parameters)
    parameters.push_back({{"name", p.name}, {"shape", p.shape}, {"offset", p.offset}});
  for (const ManifestSlice& s : unit.slices) {
    slices.push_back({{"file", s.file},
                      {"tensor", s.tensor},
                      {"kind", s.kind},
                      {"offset", s.offset},
                      {"length", s.length}});
    if (s.block > 1) slices.back()["block"] = s.block;
  }
  Json json{
      {"name", unit.name}, {"numel", unit.numel}, {"parameters", parameters}, {"slices", slices}};
  if (unit.tp > 1) {
    json["tp_rank"] = unit.tp_rank;
    json["tp"] = unit.tp;
  }
  return json;
}

ManifestUnit unit_from(const Json& json, const std::string& what) {
  const JsonFields fields(json, what + ": unit");
  fields.only({"name", "numel", "tp_rank", "tp", "parameters", "slices"});
  constexpr std::int64_t kMaxParts = 1 << 20;
  ManifestUnit unit{.name = fields.string("name"),
                    .numel = fields.integer("numel", 0, kMaxElements),
                    .tp_rank = fields.has("tp") ? fields.integer("tp_rank", 0, kMaxParts) : 0,
                    .tp = fields.has("tp") ? fields.integer("tp", 1, kMaxParts) : 1,
                    .parameters = {},
                    .slices = {}};
  for (const Json& item : fields.array("parameters")) {
    const JsonFields p(item, what + ": parameter");
    p.only({"name", "shape", "offset"});
    ManifestParameter parameter{
        .name = p.string("name"), .shape = {}, .offset = p.integer("offset", 0, kMaxElements)};
    for (const Json& dim : p.array("shape"))
      parameter.shape.push_back(json_integer(dim, p.where() + ": shape", 0, kMaxElements));
    unit.parameters.push_back(std::move(parameter));
  }
  for (const Json& item : fields.array("slices")) {
    const JsonFields s(item, what + ": slice");
    s.only({"file", "tensor", "kind", "offset", "length", "block"});
    unit.slices.push_back({.file = s.string("file"),
                           .tensor = s.string("tensor"),
                           .kind = s.string("kind"),
                           .offset = s.integer("offset", 0, kMaxElements),
                           .length = s.integer("length", 0, kMaxElements),
                           .block = s.has("block") ? s.integer("block", 2, kMaxElements) : 1});
  }
  return unit;
}

Json to_json(const ManifestFile& file) {
  std::string blocks;
  for (const std::uint64_t hash : file.blocks) blocks += hex64(hash);
  return {{"name", file.name}, {"size", file.size}, {"xxh3", hex64(file.hash)}, {"blocks", blocks}};
}

ManifestFile file_from(const Json& json, std::int64_t version, const std::string& what) {
  const JsonFields fields(json, what + ": file");
  ManifestFile file{
      .name = fields.string("name"), .size = fields.integer("size"), .hash = fields.hex("xxh3")};
  if (version == 1) {
    fields.only({"name", "size", "xxh3"});
    return file;
  }
  fields.only({"name", "size", "xxh3", "blocks"});
  const std::string blocks = fields.string("blocks");
  for (std::size_t at = 0; at < blocks.size(); at += kHexDigits)
    file.blocks.push_back(
        parse_hex64(std::string_view(blocks).substr(at, kHexDigits), fields.where() + ": blocks"));
  if (file.blocks.empty() && file.size > 0)
    fail(ErrorKind::kData, "{}: {} has no hashes of blocks", what, shown(file.name));
  return file;
}

std::vector<ManifestAxis> layout_from(const Json& json, const std::string& what) {
  const JsonFields fields(json, what + ": layout");
  std::vector<ManifestAxis> layout;
  for (const auto& [axis, degree] : json.items())
    layout.push_back({.axis = axis, .degree = fields.integer(axis.c_str(), 1)});
  return layout;
}

// The text must end in its digest, spelled exactly as print spells it, so that every bit counts.
std::string_view checked_body(std::string_view text, const std::string& what) {
  const std::size_t tail = kTailBegin.size() + 16 + kTailEnd.size();
  if (text.size() < tail || text.substr(text.size() - tail, kTailBegin.size()) != kTailBegin ||
      text.substr(text.size() - kTailEnd.size()) != kTailEnd)
    fail(ErrorKind::kData, "{}: does not end with its digest: cut short, or not a manifest", what);
  const std::string_view body = text.substr(0, text.size() - tail);
  const std::uint64_t said =
      parse_hex64(text.substr(body.size() + kTailBegin.size(), 16), what + ": digest");
  if (said != hash64(body))
    fail(ErrorKind::kData, "{}: digest {} does not fit the text ({}): damaged or edited", what,
         hex64(said), hex64(hash64(body)));
  return body;
}

}  // namespace

std::string print(const Manifest& manifest) {
  try {
    check(manifest, "manifest");
  } catch (const Error& error) {
    TRIREME_CHECK(false, "{}", error.what());
  }
  Json json{
      {"format", kCheckpointFormat},
      {"version", kCheckpointVersion},
      {"build", manifest.build},
      {"step", manifest.step},
      {"world", manifest.world},
      {"layout", Json::object()},
      {"data",
       {{"consumed_samples", manifest.consumed_samples}, {"digest", manifest.dataset_digest}}},
      {"train_state", parse_json(manifest.train_state, "train_state")},
      {"job", manifest.job},
      {"files", Json::array()},
      {"units", Json::array()}};
  if (!manifest.vocabulary.empty()) json["data"]["vocabulary"] = manifest.vocabulary;
  if (!manifest.base.empty()) json["base"] = manifest.base;
  if (manifest.eval_loss) {
    TRIREME_CHECK(std::isfinite(*manifest.eval_loss), "a loss of {}", *manifest.eval_loss);
    json["eval_loss"] = *manifest.eval_loss;
  }
  for (const auto& [axis, degree] : manifest.layout) json["layout"][axis] = degree;
  for (const ManifestFile& file : manifest.files) {
    TRIREME_CHECK(!file.blocks.empty() || file.size == 0, "{} has no hashes of blocks", file.name);
    json["files"].push_back(to_json(file));
  }
  for (const ManifestUnit& unit : manifest.units) json["units"].push_back(to_json(unit));
  std::string text = json.dump(1);
  text.resize(text.size() - 2);  // the closing brace comes after the digest
  const std::string digest = hex64(hash64(text));
  return text.append(kTailBegin).append(digest).append(kTailEnd);
}

Manifest parse_manifest(std::string_view text, const std::string& what) {
  const std::string_view body = checked_body(text, what);
  const Json json = parse_json(std::string(body) + "\n}", what);
  const JsonFields fields(json, what);
  const std::int64_t version = fields.need_format(
      kCheckpointFormat, kOldestVersion, kCheckpointVersion, "use the build that wrote it");
  fields.only({"format", "version", "build", "step", "world", "layout", "data", "train_state",
               "job", "base", "eval_loss", "files", "units"});
  const JsonFields data(fields.any("data"), what + ": data");
  data.only({"consumed_samples", "digest", "vocabulary"});
  Manifest manifest{.step = fields.integer("step"),
                    .world = fields.integer("world", 1),
                    .layout = {},
                    .consumed_samples = data.integer("consumed_samples"),
                    .dataset_digest = data.string("digest"),
                    .vocabulary = data.has("vocabulary") ? data.string("vocabulary") : "",
                    .eval_loss = {},
                    .job = fields.string("job"),
                    .train_state = fields.object("train_state").dump(),
                    .build = fields.string("build"),
                    .base = fields.has("base") ? fields.string("base") : "",
                    .files = {},
                    .units = {}};
  if (fields.has("eval_loss")) manifest.eval_loss = fields.number("eval_loss");
  if (version > 1) manifest.layout = layout_from(fields.any("layout"), what);
  for (const Json& item : fields.array("files"))
    manifest.files.push_back(file_from(item, version, what));
  for (const Json& item : fields.array("units")) manifest.units.push_back(unit_from(item, what));
  check(manifest, what);
  return manifest;
}

std::string print(const ManifestFile& file) { return to_json(file).dump(1) + "\n"; }

ManifestFile parse_manifest_file(std::string_view text, const std::string& what) {
  ManifestFile file = file_from(parse_json(text, what), kCheckpointVersion, what);
  check_file(file, what);
  return file;
}

Manifest read_manifest(const Path& directory, os::FileSystem& files) {
  const Path path = directory / kManifestName;
  const os::Status status = files.status(path);
  if (status.kind == os::Kind::kAbsent)
    fail(ErrorKind::kData, "{}: is missing, so {} is not a complete checkpoint", path.string(),
         directory.string());
  if (status.size > static_cast<std::int64_t>(kMaxManifestBytes))
    fail(ErrorKind::kData, "{}: has {} bytes, but a manifest may have at most {}", path.string(),
         status.size, kMaxManifestBytes);
  const std::unique_ptr<os::Contents> contents = files.read(path);
  const std::span<const std::byte> bytes = contents->bytes();
  return parse_manifest({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path.string());
}

}  // namespace trireme::formats
