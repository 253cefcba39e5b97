#include "trireme/launch/islands/messages.h"

#include <nlohmann/json.hpp>

#include "trireme/base/error.h"
#include "trireme/base/hash.h"
#include "trireme/formats/json_fields.h"

namespace trireme::islands {
namespace {

constexpr std::int64_t kMessages = 3;
constexpr const char* kWhere = "a message between islands";
constexpr const char* kNewer = "start leader and islands with one version of Trireme";
constexpr const char* kProtocol = "trireme islands message";

Json list_of(const std::vector<Applied>& applied) {
  Json list = Json::array();
  for (const Applied& one : applied) list.push_back(Json::array({one.entry, one.when}));
  return list;
}

std::vector<Applied> list_from(const Json& list) {
  std::vector<Applied> applied;
  for (const Json& one : list) {
    if (!one.is_array() || one.size() != 2) fail(ErrorKind::kData, "{}: {}", kWhere, one.dump());
    applied.push_back({.entry = formats::json_integer(one[0], kWhere),
                       .when = formats::json_integer(one[1], kWhere)});
  }
  return applied;
}

Json body(const Hello& hello) {
  Json parts = Json::array();
  for (const Part& part : hello.parts)
    parts.push_back(Json::array({part.unit, part.begin, part.count, part.sends ? 1 : 0}));
  return {{"kind", "hello"},
          {"island", hello.island},
          {"islands", hello.islands},
          {"run", hello.run},
          {"rank", hello.rank},
          {"ranks", hello.ranks},
          {"step", hello.step},
          {"position", hello.position},
          {"line", hex64(hello.line)},
          {"copied", hello.copied},
          {"copied_line", hex64(hello.copied_line)},
          {"term", hello.term},
          {"resumes", hello.resumes},
          {"state", hex64(hello.state)},
          {"applied", list_of(hello.applied)},
          {"recipe", to_json(hello.recipe)},
          {"parts", parts},
          {"machine", hello.machine},
          {"job", hello.job}};
}
Json body(const Offer& offer) {
  return {
      {"kind", "offer"},      {"fragment", offer.fragment},    {"round", offer.round},
      {"step", offer.step},   {"weight", offer.weight},        {"step_s", offer.step_s},
      {"bytes", offer.bytes}, {"digest", hex64(offer.digest)}, {"applied", list_of(offer.applied)}};
}
Json body(const Want& want) {
  return {{"kind", "want"}, {"key", hex64(want.key)}, {"from", want.from}};
}
Json body(const Have& have) { return {{"kind", "have"}, {"entries", have.entries}}; }
Json body(const News& news) {
  return {{"kind", "news"},
          {"index", news.index},
          {"line", news.line},
          {"bytes", news.bytes},
          {"digest", hex64(news.digest)}};
}
Json body(const Welcome& welcome) {
  return {{"kind", "welcome"},
          {"entries", welcome.entries},
          {"term", welcome.term},
          {"copied", welcome.copied}};
}
Json body(const Refusal& refusal) { return {{"kind", "refusal"}, {"why", refusal.why}}; }
Json body(const Leave& leave) {
  return {{"kind", "leave"}, {"step", leave.step}, {"applied", list_of(leave.applied)}};
}
Json body(const Seek& seek) {
  return {
      {"kind", "seek"}, {"island", seek.island}, {"step", seek.step}, {"position", seek.position}};
}
Json body(const State& state) {
  Json files = Json::array();
  for (const StateFile& file : state.files) files.push_back(Json::array({file.name, file.bytes}));
  return {{"kind", "state"},    {"key", hex64(state.key)},    {"island", state.island},
          {"step", state.step}, {"position", state.position}, {"line", hex64(state.line)},
          {"job", state.job},   {"dataset", state.dataset},   {"files", files}};
}
Json body(const Fetch& fetch) {
  return {
      {"kind", "fetch"}, {"key", hex64(fetch.key)}, {"from", fetch.from}, {"count", fetch.count}};
}

// Names become those of files.
State state_from(const formats::JsonFields& fields) {
  State state{.key = fields.hex("key"),
              .island = static_cast<int>(fields.integer("island", 0, 1 << 20)),
              .step = fields.integer("step"),
              .position = fields.integer("position"),
              .line = fields.hex("line"),
              .job = fields.string("job"),
              .dataset = fields.string("dataset")};
  std::int64_t most = kMostState;
  for (const Json& one : fields.array("files")) {
    if (!one.is_array() || one.size() != 2 || !one[0].is_string())
      fail(ErrorKind::kData, "{}: {}", kWhere, one.dump());
    const auto name = one[0].get<std::string>();
    if (name.empty() || name[0] == '.' || name.find('/') != name.npos || name.size() > 200)
      fail(ErrorKind::kData, "{}: {} is no name of a file", kWhere, one.dump());
    state.files.push_back({.name = name, .bytes = formats::json_integer(one[1], kWhere, 0, most)});
    most -= state.files.back().bytes;
  }
  return state;
}

Hello hello_from(const formats::JsonFields& fields) {
  Hello hello{.islands = static_cast<int>(fields.integer("islands", 1, 1 << 20)),
              .run = fields.string("run"),
              .ranks = static_cast<int>(fields.integer("ranks", 1, 1 << 20)),
              .step = fields.integer("step"),
              .position = fields.integer("position"),
              .line = fields.hex("line"),
              .copied = fields.integer("copied"),
              .copied_line = fields.hex("copied_line"),
              .term = fields.integer("term"),
              .applied = list_from(fields.array("applied")),
              .resumes = fields.string("resumes"),
              .state = fields.hex("state"),
              .recipe = recipe_from(fields.object("recipe"), kWhere),
              .machine = fields.string("machine"),
              .job = fields.string("job")};
  hello.island = static_cast<int>(fields.integer("island", 0, hello.islands - 1));
  hello.rank = static_cast<int>(fields.integer("rank", 0, hello.ranks - 1));
  for (const Json& one : fields.array("parts")) {
    if (!one.is_array() || one.size() != 4) fail(ErrorKind::kData, "{}: {}", kWhere, one.dump());
    const auto unit = static_cast<int>(
        formats::json_integer(one[0], kWhere, 0, std::ssize(hello.recipe.units) - 1));
    const Unit& of = hello.recipe.units[static_cast<std::size_t>(unit)];
    Part part{.unit = unit,
              .begin = formats::json_integer(one[1], kWhere, 0, of.whole()),
              .sends = formats::json_integer(one[3], kWhere, 0, 1) == 1};
    part.count = formats::json_integer(one[2], kWhere, 0, of.whole() - part.begin);
    if (part.begin % of.block != 0 || part.count % of.block != 0)
      fail(ErrorKind::kData, "{}: {} is not whole blocks of {}", kWhere, one.dump(), of.block);
    hello.parts.push_back(part);
  }
  return hello;
}

Offer offer_from(const formats::JsonFields& fields) {
  return {.fragment = static_cast<int>(fields.integer("fragment", 0, 1023)),
          .round = fields.integer("round"),
          .step = fields.integer("step"),
          .weight = fields.number("weight"),
          .step_s = fields.number("step_s"),
          .bytes = fields.integer("bytes", 0, kMostBytes),
          .digest = fields.hex("digest"),
          .applied = list_from(fields.array("applied"))};
}

}  // namespace

std::string print(const Message& message) {
  Json json{{"format", kProtocol}, {"version", kMessages}};
  json.update(std::visit([](const auto& one) { return body(one); }, message));
  return json.dump();
}

Message parse_message(const std::string& text) {
  const Json json = parse_json(text, kWhere);
  const formats::JsonFields fields(json, kWhere);
  fields.need_format(kProtocol, kMessages, kNewer);
  const std::string kind = fields.string("kind");
  if (kind == "hello") return hello_from(fields);
  if (kind == "offer") return offer_from(fields);
  if (kind == "want") return Want{.key = fields.hex("key"), .from = fields.integer("from")};
  if (kind == "have") return Have{.entries = fields.integer("entries")};
  if (kind == "news")
    return News{.index = fields.integer("index"),
                .line = fields.string("line"),
                .bytes = fields.integer("bytes", 0, kMostBytes),
                .digest = fields.hex("digest")};
  if (kind == "welcome")
    return Welcome{.entries = fields.integer("entries"),
                   .term = fields.integer("term"),
                   .copied = fields.integer("copied")};
  if (kind == "seek")
    return Seek{.island = static_cast<int>(fields.integer("island", 0, 1 << 20)),
                .step = fields.integer("step"),
                .position = fields.integer("position")};
  if (kind == "state") return state_from(fields);
  if (kind == "fetch")
    return Fetch{.key = fields.hex("key"),
                 .from = fields.integer("from", 0, kMostState / kPiece),
                 .count = fields.integer("count", 1, kMostFetched)};
  if (kind == "refusal") return Refusal{.why = fields.string("why")};
  if (kind == "leave")
    return Leave{.step = fields.integer("step"), .applied = list_from(fields.array("applied"))};
  fail(ErrorKind::kData, "{}: unknown kind \"{}\"; {}", kWhere, kind, kNewer);
}

std::int64_t State::bytes() const {
  std::int64_t sum = 0;
  for (const StateFile& file : files) sum += file.bytes;
  return sum;
}

}  // namespace trireme::islands
