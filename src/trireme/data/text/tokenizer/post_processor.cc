#include "trireme/data/text/tokenizer/post_processor.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "trireme/base/error.h"
#include "trireme/formats/json_fields.h"
#include "trireme/formats/shown.h"

namespace trireme::text {
namespace {

void append_special(const formats::JsonFields& fields, const std::string& id,
                    std::vector<std::int32_t>& to) {
  const formats::JsonFields known(fields.object("special_tokens"),
                                  fields.where() + ": special_tokens");
  const formats::JsonFields token(known.object(id.c_str()),
                                  known.where() + ": " + formats::shown(id));
  for (const Json& one : token.array("ids"))
    to.push_back(static_cast<std::int32_t>(formats::json_integer(
        one, token.where() + ": ids", 0, std::numeric_limits<std::int32_t>::max())));
}

// The template of a single text.
AroundText read_template(const formats::JsonFields& fields) {
  fields.only({"type", "single", "pair", "special_tokens"});
  AroundText around;
  bool text_seen = false;
  for (const Json& item : fields.array("single")) {
    const formats::JsonFields piece(item, fields.where() + ": single");
    if (piece.has("SpecialToken")) {
      const formats::JsonFields token(piece.object("SpecialToken"),
                                      piece.where() + ": SpecialToken");
      append_special(fields, token.string("id"), text_seen ? around.after : around.before);
    } else if (piece.has("Sequence") && !text_seen) {
      text_seen = true;
    } else {
      fail(ErrorKind::kData, "{}: {} is not supported; special tokens around one Sequence are",
           piece.where(), formats::shown_json(item));
    }
  }
  if (!text_seen) fail(ErrorKind::kData, "{}: single has no Sequence", fields.where());
  return around;
}

// One of the two tokens of BERT's and RoBERTa's processors: ["</s>", 2].
std::int32_t special_id(const formats::JsonFields& fields, const char* key) {
  const Json& pair = fields.array(key);
  const std::string where = fields.where() + ": " + key;
  if (pair.size() != 2)
    fail(ErrorKind::kData, "{}: {} is no [token, id]", where, formats::shown_json(pair));
  return static_cast<std::int32_t>(
      formats::json_integer(pair[1], where, 0, std::numeric_limits<std::int32_t>::max()));
}

}  // namespace

AroundText read_post_processor(const Json& json, const std::string& what) {
  if (json.is_null()) return {};
  const formats::JsonFields fields(json, what);
  const std::string type = fields.string("type");
  if (type == "ByteLevel") {
    fields.only({"type", "add_prefix_space", "trim_offsets", "use_regex"});
    return {};
  }
  if (type == "TemplateProcessing") return read_template(fields);
  if (type == "BertProcessing" || type == "RobertaProcessing") {
    fields.only({"type", "sep", "cls", "trim_offsets", "add_prefix_space"});
    return {.before = {special_id(fields, "cls")}, .after = {special_id(fields, "sep")}};
  }
  if (type != "Sequence")
    fail(ErrorKind::kData,
         "{}: type {} is not supported; ByteLevel, TemplateProcessing, BertProcessing, "
         "RobertaProcessing and a Sequence of them are",
         what, formats::shown(type));
  fields.only({"type", "processors"});
  AroundText all;
  for (const Json& item : fields.array("processors")) {
    const AroundText one = read_post_processor(item, what);
    all.before.insert(all.before.begin(), one.before.begin(), one.before.end());
    all.after.insert(all.after.end(), one.after.begin(), one.after.end());
  }
  return all;
}

}  // namespace trireme::text
