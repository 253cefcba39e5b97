#include "trireme/data/text/tokenizer/decoders.h"

#include <algorithm>
#include <charconv>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/data/text/tokenizer/pattern.h"
#include "trireme/data/text/tokenizer/utf8.h"
#include "trireme/formats/shown.h"

namespace trireme::text {
namespace {

using formats::JsonFields;

std::string replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const bool here = !from.empty() && text.substr(at).starts_with(from);
    out += here ? to : text.substr(at, 1);
    at += here ? from.size() : 1;
  }
  return out;
}

void join(std::vector<std::string>& tokens, std::string_view between) {
  std::string all;
  for (const std::string& token : tokens) {
    if (&token != &tokens.front()) all += between;
    all += token;
  }
  tokens = {std::move(all)};
}

Decoder strip_each(const std::string& content, std::int64_t start, std::int64_t stop) {
  return [=](std::vector<std::string>& tokens) {
    for (std::string& token : tokens) {
      std::string_view rest = token;
      for (std::int64_t i = 0; i < start && rest.starts_with(content); ++i)
        rest.remove_prefix(content.size());
      for (std::int64_t i = 0; i < stop && rest.ends_with(content); ++i)
        rest.remove_suffix(content.size());
      token = std::string(rest);
    }
  };
}

Decoder replace_each(Pattern pattern, const std::string& content) {
  auto shared = std::make_shared<const Pattern>(std::move(pattern));
  return [shared, content](std::vector<std::string>& tokens) {
    for (std::string& token : tokens) {
      std::string out;
      std::size_t at = 0;
      for (const Range& match : shared->matches(token)) {
        out += token.substr(at, match.begin - at) + content;
        at = match.end;
      }
      token = out + token.substr(at);
    }
  };
}

Decoder spaces_for(const std::string& mark, bool prefixed) {
  return [mark, prefixed](std::vector<std::string>& tokens) {
    for (std::string& token : tokens)
      token = replaced(token, mark, prefixed && &token == &tokens.front() ? "" : " ");
  };
}

std::string without_spaces_before_marks(std::string text) {
  constexpr std::pair<std::string_view, std::string_view> kPairs[] = {
      {" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
      {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
      {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [from, to] : kPairs) text = replaced(text, from, to);
  return text;
}

Decoder word_pieces(const std::string& prefix, bool cleanup) {
  return [prefix, cleanup](std::vector<std::string>& tokens) {
    for (std::string& token : tokens) {
      if (&token != &tokens.front())
        token = token.starts_with(prefix) ? token.substr(prefix.size()) : " " + token;
      if (cleanup) token = without_spaces_before_marks(token);
    }
  };
}

Decoder suffixed(const std::string& suffix) {
  return [suffix](std::vector<std::string>& tokens) {
    for (std::string& token : tokens)
      token = replaced(token, suffix, &token == &tokens.back() ? "" : " ");
  };
}

void read_metaspace_decoder(const JsonFields& fields, std::vector<Decoder>& out) {
  fields.only({"type", "replacement", "prepend_scheme", "split", "add_prefix_space", "str_rep"});
  const bool prefixed = fields.has("prepend_scheme")
                            ? fields.string("prepend_scheme") != "never"
                            : !fields.has("add_prefix_space") || fields.boolean("add_prefix_space");
  out.push_back(spaces_for(fields.string("replacement"), prefixed));
}

void read_decoder(const Json& json, bool byte_level, const std::string& what,
                  std::vector<Decoder>& out) {
  const JsonFields fields(json, what);
  const std::string type = fields.string("type");
  if (type == "Sequence") {
    fields.only({"type", "decoders"});
    for (const Json& step : fields.array("decoders")) read_decoder(step, byte_level, what, out);
  } else if (type == "ByteLevel") {
    fields.only({"type", "add_prefix_space", "trim_offsets", "use_regex"});
    if (!byte_level)
      fail(ErrorKind::kData, "{}: ByteLevel without a ByteLevel pre-tokenizer is not supported",
           what);
  } else if (type == "ByteFallback") {
    fields.only({"type"});
    out.emplace_back([](std::vector<std::string>& tokens) { join_bytes(tokens, false); });
  } else if (type == "Fuse") {
    fields.only({"type"});
    out.emplace_back([](std::vector<std::string>& tokens) { join(tokens, ""); });
  } else if (type == "Strip") {
    fields.only({"type", "content", "start", "stop"});
    if (fields.string("content").empty()) fail(ErrorKind::kData, "{}: Strip has no content", what);
    out.push_back(
        strip_each(fields.string("content"), fields.integer("start"), fields.integer("stop")));
  } else if (type == "Replace") {
    fields.only({"type", "pattern", "content"});
    out.push_back(replace_each(read_pattern(fields, "pattern"), fields.string("content")));
  } else if (type == "Metaspace") {
    read_metaspace_decoder(fields, out);
  } else if (type == "WordPiece") {
    fields.only({"type", "prefix", "cleanup"});
    out.push_back(word_pieces(fields.string("prefix"), fields.boolean("cleanup")));
  } else if (type == "BPEDecoder") {
    fields.only({"type", "suffix"});
    out.push_back(suffixed(fields.string("suffix")));
  } else {
    fail(ErrorKind::kData,
         "{}: type {} is not supported; Sequence, ByteLevel, ByteFallback, Fuse, Strip, Replace, "
         "Metaspace, WordPiece and BPEDecoder are",
         what, formats::shown(type));
  }
}

}  // namespace

std::vector<Decoder> read_decoders(const Json& json, bool byte_level, const std::string& what) {
  std::vector<Decoder> out;
  if (!json.is_null())
    read_decoder(json, byte_level, what, out);
  else if (!byte_level)
    out.emplace_back([](std::vector<std::string>& tokens) { join(tokens, " "); });
  return out;
}

std::optional<char> byte_of_token(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return std::nullopt;
  unsigned value = 0;
  const auto [end, error] = std::from_chars(token.data() + 3, token.data() + 5, value, 16);
  if (error != std::errc() || end != token.data() + 5) return std::nullopt;
  return static_cast<char>(value);
}

void join_bytes(std::vector<std::string>& tokens, bool by_byte) {
  std::vector<std::string> out;
  std::string bytes;
  const auto flush = [&] {
    std::string text;
    bool valid = true;
    for (std::size_t at = 0; at < bytes.size();) {
      const Character character = character_at(bytes, at);
      valid &= character.code >= 0;
      text +=
          character.code < 0 ? kReplacement : std::string_view(bytes).substr(at, character.size);
      at += character.size;
    }
    if (!valid && !by_byte) {
      text.clear();
      for (std::size_t i = 0; i < bytes.size(); ++i) text += kReplacement;
    }
    if (!bytes.empty()) out.push_back(std::move(text));
    bytes.clear();
  };
  for (std::string& token : tokens) {
    if (const std::optional<char> byte = byte_of_token(token)) {
      bytes += *byte;
      continue;
    }
    flush();
    out.push_back(std::move(token));
  }
  flush();
  tokens = std::move(out);
}

}  // namespace trireme::text
