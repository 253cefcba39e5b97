// tokenizer.json of Hugging Face, models of SentencePiece and our own description of a tokenizer; what is taken must encode
// and decode.
#include "tests/fuzz/target.h"
#include "trireme/data/text/tokenizer.h"

using namespace trireme;

namespace {

void use(const text::Tokenizer& tokenizer, std::string_view text) {
  fuzz::takes([&] {
    for (const std::int32_t id : tokenizer.encode(text))
      fuzz::expect(id >= 0 && id < tokenizer.vocab_size(), "an id outside the vocabulary");
    tokenizer.decode(tokenizer.encode(text));
    text::DecodeStream stream(tokenizer, {});
    for (const text::TokenSpan& token : tokenizer.encode_spans(text)) {
      fuzz::expect(token.begin <= token.end && token.end <= text.size(),
                   "a range outside the text");
      stream.add(token.id);
    }
    stream.finish();
  });
}

template <typename Make>
void read(const Make& make, std::string_view text) {
  fuzz::takes([&] {
    const text::Tokenizer tokenizer = make();
    use(tokenizer, "The 12 oars' stroke,  \xC3\xA9\xF0\x9F\x98\x80\n\t a\xFF");
    use(tokenizer, text.substr(0, 200));
    text::Tokenizer::from_description(tokenizer.description(), "f");
  });
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = fuzz::text_of(data, size);
  read([&] { return text::Tokenizer::hugging_face(text, "f"); }, text);
  read([&] { return text::Tokenizer::sentencepiece(text, "f"); }, text);
  read([&] { return text::Tokenizer::from_description(text, "f"); }, text);
  return 0;
}
