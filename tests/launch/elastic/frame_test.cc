#include "trireme/launch/elastic/frame.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <optional>
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

End server(const std::string& token = kToken) {
  return {Session(Session::Role::kServer, token, random_bytes(32))};
}
End client(const std::string& token = kToken) {
  return {Session(Session::Role::kClient, token, random_bytes(32))};
}

void open(End& here, End& there) { there.take(here.take(there.take(here.session.greeting()))); }

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
  trickle(there, trickle(here, trickle(there, here.session.greeting())));
  trickle(here, there.session.seal("slow"));
  EXPECT_THAT(here.frames, ElementsAre("slow"));
}

TEST(Session, AnotherTokenIsRefusedByBothSides) {
  End here = server(), there = client("another token altogether");
  const std::string claim = there.take(here.session.greeting());
  EXPECT_THROW(here.take(claim), Error);
  EXPECT_FALSE(here.session.open());
  // A server that takes anybody is no server of ours.
  End theirs = server("another token altogether"), ours = client();
  ours.take(theirs.session.greeting());
  EXPECT_THROW(ours.take(random_bytes(32)), Error);
  EXPECT_FALSE(ours.session.open());
}

TEST(Session, AHandshakeCannotBeReplayed) {
  End first = server(), there = client();
  const std::string claim = there.take(first.session.greeting());
  first.take(claim);
  ASSERT_TRUE(first.session.open());
  End second = server();
  EXPECT_THROW(second.take(claim), Error);
}

TEST(Session, OnesOwnProofIsNoProof) {
  // A server that answers with what the client sent.
  End there = client(), here = server();
  const std::string claim = there.take(here.session.greeting());
  EXPECT_THROW(there.take(claim.substr(32)), Error);
}

TEST(Session, AFrameCannotBeAlteredRepeatedLeftOutOrTurnedAround) {
  const auto refuses = [](const std::function<std::string(End & here, End & there)>& bytes) {
    End here = server(), there = client();
    open(here, there);
    const std::string hostile = bytes(here, there);
    EXPECT_THROW(here.take(hostile), Error);
  };
  const std::size_t size = 4 + 5 + 32;
  for (std::size_t bit = 0; bit < 8 * size; ++bit) {
    if (bit / 8 < 4 && bit >= 3) continue;  // a longer frame: waits for more, see below
    refuses([&](End&, End& there) {
      std::string frame = there.session.seal("hello");
      frame[bit / 8] = static_cast<char>(frame[bit / 8] ^ 1 << bit % 8);
      return frame + std::string(8, 'x');
    });
  }
  refuses([](End&, End& there) {
    const std::string frame = there.session.seal("hello");
    return frame + frame;
  });
  refuses([](End&, End& there) {
    there.session.seal("left out");
    return there.session.seal("hello");
  });
  refuses([](End& here, End&) { return here.session.seal("to myself"); });
  refuses([](End&, End&) {
    End other = server(), foreign = client();
    open(other, foreign);
    return foreign.session.seal("from another connection");
  });
  refuses([](End&, End&) { return std::string("\xff\xff\xff\xff", 4); });
}

TEST(Session, HoldsLittleOfWhatAStrangerSends) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 2000; ++round) {
    End here = server();
    std::string noise(random() % 4096, '\0');
    for (char& c : noise) c = static_cast<char>(random());
    try {
      EXPECT_EQ(here.take(noise), "");
      EXPECT_LT(noise.size(), 64u) << "more than a handshake was kept";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kPeerLost);
    }
    EXPECT_FALSE(here.session.open());
    EXPECT_TRUE(here.frames.empty());
  }
  End there = client();
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
