#include "trireme/data/text/tokenizer/models/unigram.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/data/text/tokenizer/utf8.h"
#include "trireme/formats/shown.h"

namespace trireme::text {
namespace {

constexpr double kUnknownPenalty = 10;

}  // namespace

// The best path from the beginning to a byte: its sum and its last token.
struct Unigram::Node {
  double sum = 0;
  std::int32_t id = -1;
  std::int64_t begin = -1;  // -1: not reached
};

Unigram::Unigram(UnigramRules rules) : rules_(std::move(rules)) {
  std::vector<std::pair<std::string_view, std::int32_t>> entries;
  double lowest = std::numeric_limits<float>::max();
  user_score_ = std::numeric_limits<float>::min();  // as SentencePiece begins its maximum
  // Of equal texts the last counts.
  for (std::size_t i = rules_.pieces.size(); i-- > 0;) {
    const UnigramPiece& piece = rules_.pieces[i];
    if (piece.matched) entries.emplace_back(piece.text, static_cast<std::int32_t>(i));
    if (!piece.scores) continue;
    lowest = std::min(lowest, piece.score);
    user_score_ = std::max(user_score_, static_cast<float>(piece.score));
  }
  trie_ = Trie(std::move(entries));
  unknown_score_ = rules_.single_precision
                       ? static_cast<float>(lowest) - static_cast<float>(kUnknownPenalty)
                       : lowest - kUnknownPenalty;
}

std::vector<Unigram::Node> Unigram::best_path(std::string_view word) const {
  std::vector<Node> nodes(word.size() + 1);
  const auto rounded = [&](double sum) {
    return rules_.single_precision ? static_cast<double>(static_cast<float>(sum)) : sum;
  };
  for (std::size_t at = 0; at < word.size();) {
    const std::size_t character = character_at(word, at).size;
    const double sum = nodes[at].sum;
    const auto reach = [&](std::size_t end, double reached, std::int32_t id) {
      Node& node = nodes[end];
      if (node.begin < 0 || reached > node.sum)
        node = {.sum = rounded(reached), .id = id, .begin = static_cast<std::int64_t>(at)};
    };
    bool single = false;
    trie_.prefixes(word.substr(at), [&](const Trie::Match& match) {
      const UnigramPiece& piece = rules_.pieces[match.value];
      const double score =
          piece.user_defined
              ? static_cast<double>(static_cast<float>(match.size) * user_score_) - 0.1
              : piece.score;
      reach(at + match.size, sum + score, match.value);
      single |= match.size == character;
    });
    if (!single) reach(at + character, rounded(sum + unknown_score_), rules_.unknown);
    at += character;
  }
  return nodes;
}

void Unigram::encode(std::string_view word, std::vector<WordToken>& out) const {
  if (word.size() > std::numeric_limits<std::uint32_t>::max())
    fail(ErrorKind::kData, "{} bytes without a break are too long to encode", word.size());
  const std::vector<Node> nodes = best_path(word);
  std::vector<WordToken> tokens;
  for (std::size_t end = word.size(); end > 0;) {
    const Node& node = nodes[end];
    const auto begin = static_cast<std::uint32_t>(node.begin);
    if (node.id == rules_.unknown && !tokens.empty() && tokens.back().id == node.id)
      tokens.back().begin = begin;
    else
      tokens.push_back({node.id, begin, static_cast<std::uint32_t>(end)});
    end = begin;
  }
  for (auto token = tokens.rbegin(); token != tokens.rend(); ++token)
    if (token->id == rules_.unknown)
      add_unknown(word, *token, out);
    else
      out.push_back(*token);
}

void Unigram::add_unknown(std::string_view word, const WordToken& token,
                          std::vector<WordToken>& out) const {
  const std::string_view text = word.substr(token.begin, token.end - token.begin);
  const auto spelled = [&](char byte) {
    return rules_.byte_ids[static_cast<unsigned char>(byte)] >= 0;
  };
  if (!rules_.byte_ids.empty() && std::ranges::all_of(text, spelled)) {
    for (std::uint32_t at = token.begin; at < token.end; ++at)
      out.push_back({rules_.byte_ids[static_cast<unsigned char>(word[at])], at, at + 1});
    return;
  }
  if (rules_.unknown < 0)
    fail(ErrorKind::kData,
         "{} has no token, and the tokenizer has neither byte_fallback nor unk_id",
         formats::shown(text));
  out.push_back(token);
}

Model::Rules Unigram::rules() const {
  Rules rules{.before = "unigram\n",
              .after = fmt::format("{} {} {} ", rules_.unknown, !rules_.byte_ids.empty(),
                                   rules_.single_precision)};
  for (const UnigramPiece& piece : rules_.pieces)
    rules.after +=
        fmt::format("{} {}{}{} ", piece.score, piece.matched, piece.user_defined, piece.scores);
  return rules;
}

}  // namespace trireme::text
