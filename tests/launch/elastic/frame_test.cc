#include "trireme/launch/elastic/frame.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/ssl.h>
#include <sys/stat.h>

#include <cstring>
#include <memory>
#include <random>

#include "tests/formats/scratch.h"
#include "trireme/base/error.h"
#include "trireme/launch/elastic/secret.h"

namespace trireme::elastic::frame_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kToken[] = "sixteen bytes and more";

struct End {
  Session session;
  std::vector<std::string> frames{};

  std::string take(std::string_view bytes) {
    return session.receive(bytes, [&](std::string frame) { frames.push_back(std::move(frame)); });
  }
};

const Sessions& sessions() {
  static const Sessions made(kToken);
  return made;
}
End server() { return {sessions().accept()}; }
End client() { return {sessions().connect(Caller::kRank)}; }

void open(End& here, End& there) { here.take(there.take(here.take(there.session.greeting()))); }

TEST(Hmac, IsRfc4231) {
  std::string hex;
  for (const char c : hmac("Jefe", "what do ya want for nothing?"))
    hex += fmt::format("{:02x}", static_cast<unsigned char>(c));
  EXPECT_EQ(hex, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

TEST(Session, CarriesFramesBothWays) {
  End here = server(), there = client();
  EXPECT_FALSE(here.session.open());
  open(here, there);
  ASSERT_TRUE(here.session.open());
  ASSERT_TRUE(there.session.open());
  const std::string large(kLargestFrame, 'x');
  std::string stream;
  for (const std::string& payload : {std::string("one"), std::string(), large})
    stream += there.session.seal(payload);
  here.take(stream);
  EXPECT_TRUE(here.frames == (std::vector<std::string>{"one", "", large}));
  there.take(here.session.seal("two"));
  EXPECT_THAT(there.frames, ElementsAre("two"));
}

TEST(Session, TakesBytesAsTheyCome) {
  End here = server(), there = client();
  const auto trickle = [](End& to, const std::string& bytes) {
    std::string answer;
    for (const char c : bytes) answer += to.take({&c, 1});
    return answer;
  };
  trickle(here, trickle(there, trickle(here, there.session.greeting())));
  trickle(here, there.session.seal("slow"));
  EXPECT_THAT(here.frames, ElementsAre("slow"));
}

TEST(Session, ShowsNothingOnTheWire) {
  End here = server(), there = client();
  std::string seen = there.session.greeting();
  const std::string answer = here.take(seen);
  const std::string last = there.take(answer);
  here.take(last);
  const std::string marker = "a marker that is easy to find";
  seen += answer + last + there.session.seal(marker) + here.session.seal(marker);
  EXPECT_EQ(seen.find(marker), std::string::npos);
  EXPECT_EQ(seen.find(kToken), std::string::npos);
}

TEST(Session, AnotherTokenIsRefused) {
  const Sessions others("another token altogether");
  for (const Caller caller : {Caller::kAgent, Caller::kRank}) {
    End here = server();
    EXPECT_THROW(here.take(others.connect(caller).greeting()), Error);
    EXPECT_FALSE(here.session.open());
  }
}

// Under the right token, too: a connection of data is no control connection.
TEST(Session, AServerTakesExpectedNamesAlone) {
  const Tls tls(kToken);
  const auto met = [&](const char* name) {
    const auto from = tls.client(name), to = tls.server(tls.expect({"a|b", "c|b"}));
    from->shake_hands();
    to->feed(from->take());
    to->shake_hands();
    from->feed(to->take());
    from->shake_hands();
    to->feed(from->take());
    return to->shake_hands();
  };
  EXPECT_TRUE(met("a|b"));
  EXPECT_TRUE(met("c|b"));
  EXPECT_THROW(met("d|b"), std::runtime_error);
  End here = server();
  const auto data = tls.client("run|1|0|stream 0");
  data->shake_hands();
  EXPECT_THROW(here.take(data->take()), Error);
}

// A client that offers TLS 1.2 at most, with the right key.
TEST(Session, AnOlderTlsIsRefused) {
  const std::unique_ptr<SSL_CTX, decltype(&::SSL_CTX_free)> context(
      ::SSL_CTX_new(::TLS_client_method()), &::SSL_CTX_free);
  SSL_CTX_set_max_proto_version(context.get(), TLS1_2_VERSION);
  ::SSL_CTX_set_psk_client_callback(
      context.get(), [](SSL*, const char*, char* identity, unsigned, unsigned char* key, unsigned) {
        std::strcpy(identity, "a rank");
        std::memcpy(key, kToken, sizeof kToken);
        return static_cast<unsigned>(sizeof kToken);
      });
  const std::unique_ptr<SSL, decltype(&::SSL_free)> old(::SSL_new(context.get()), &::SSL_free);
  BIO* const out = ::BIO_new(::BIO_s_mem());
  ::SSL_set_bio(old.get(), ::BIO_new(::BIO_s_mem()), out);
  ::SSL_connect(old.get());
  std::string hello(::BIO_ctrl_pending(out), '\0');
  ASSERT_FALSE(hello.empty());
  ::BIO_read(out, hello.data(), static_cast<int>(hello.size()));
  End here = server();
  EXPECT_THROW(here.take(hello), Error);
  EXPECT_FALSE(here.session.open());
}

TEST(Session, AHandshakeCannotBeReplayed) {
  End first = server(), there = client();
  const std::string hello = there.session.greeting();
  const std::string last = there.take(first.take(hello));
  first.take(last + there.session.seal("once"));
  ASSERT_THAT(first.frames, ElementsAre("once"));
  End second = server();
  second.take(hello);
  EXPECT_THROW(second.take(last), Error);
  EXPECT_FALSE(second.session.open());
}

TEST(Session, AServerThatAnswersWithWhatCameIsNoServer) {
  End there = client();
  const std::string hello = there.session.greeting();
  EXPECT_THROW(there.take(hello), Error);
}

TEST(Session, ARecordCannotBeAlteredRepeatedLeftOutOrTurnedAround) {
  const auto refuses = [](const std::function<std::string(End & here, End & there)>& bytes) {
    End here = server(), there = client();
    open(here, there);
    const std::string hostile = bytes(here, there);
    // A length that was altered waits for more bytes than a record has.
    EXPECT_THROW(here.take(hostile + std::string(20'000, 'x')), Error);
    EXPECT_LE(here.frames.size(), 1U);
    return here.frames.empty();
  };
  constexpr std::size_t kRecord = 5 + 4 + 5 + 1 + 16;  // header, length, "hello", type, tag
  for (std::size_t bit = 0; bit < 8 * kRecord; ++bit)
    EXPECT_TRUE(refuses([&](End&, End& there) {
      std::string record = there.session.seal("hello");
      EXPECT_EQ(record.size(), kRecord);
      record[bit / 8] = static_cast<char>(record[bit / 8] ^ 1 << bit % 8);
      return record;
    })) << bit;
  EXPECT_FALSE(refuses([](End&, End& there) {
    const std::string record = there.session.seal("hello");
    return record + record;
  }));
  EXPECT_TRUE(refuses([](End&, End& there) {
    there.session.seal("left out");
    return there.session.seal("hello");
  }));
  EXPECT_TRUE(refuses([](End& here, End&) { return here.session.seal("to myself"); }));
  EXPECT_TRUE(refuses([](End&, End&) {
    End other = server(), foreign = client();
    open(other, foreign);
    return foreign.session.seal("from another connection");
  }));
}

TEST(Session, HoldsLittleOfWhatAStrangerSends) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 2000; ++round) {
    End here = server();
    std::string noise(random() % (2 * kMostOfAHandshake), '\0');
    for (char& c : noise) c = static_cast<char>(random());
    // Half of them begin as a record of TLS that is as long as can be.
    if (round % 2 == 0) noise.insert(0, std::string("\x16\x03\x01\x40\x00", 5));
    try {
      EXPECT_EQ(here.take(noise), "");
      EXPECT_LE(noise.size(), kMostOfAHandshake);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kPeerLost);
    }
    EXPECT_FALSE(here.session.open());
    EXPECT_TRUE(here.frames.empty());
  }
  End there = client();
  there.session.greeting();
  EXPECT_THROW(there.take("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n......"), Error);
}

TEST(Token, IsAFileThatOthersCannotRead) {
  const formats::Scratch scratch;
  const Path file = scratch.write("token", "0123456789abcdef\n");
  ::chmod(file.c_str(), 0600);
  EXPECT_EQ(read_token(file), "0123456789abcdef");
  ::chmod(file.c_str(), 0640);
  EXPECT_THAT(formats::refusal([&] { read_token(file); }, ErrorKind::kUsage),
              HasSubstr("mode 640"));
  const Path brief = scratch.write("brief", "0123456789abcde\n");
  ::chmod(brief.c_str(), 0600);
  EXPECT_THAT(formats::refusal([&] { read_token(brief); }, ErrorKind::kUsage),
              HasSubstr("15 bytes"));
  EXPECT_THAT(formats::refusal([&] { read_token(scratch / "none"); }, ErrorKind::kUsage),
              HasSubstr("No such file"));
}

}  // namespace
}  // namespace trireme::elastic::frame_test
