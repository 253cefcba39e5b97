// Frames on a connection that is open, damaged on their way: what comes is what was sent, up to the first damage. The
// first byte says how many edits follow, of four bytes each: a place, what is done there, and with which byte.
#include <algorithm>
#include <vector>

#include "tests/fuzz/target.h"
#include "trireme/launch/elastic/frame.h"

using namespace trireme;
using elastic::Session;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::size_t edits = size == 0 ? 0 : data[0] % 8;
  if (size < 1 + 4 * edits) return 0;
  const auto nobody = [](const std::string&) { throw fuzz::Finding("a frame that nobody sent"); };
  static const elastic::Sessions sessions("the token of this run");
  Session server = sessions.accept(), client = sessions.connect(elastic::Caller::kRank);
  server.receive(client.receive(server.receive(client.greeting(), nobody), nobody), nobody);
  fuzz::expect(client.open() && server.open(), "a handshake that fails");

  std::vector<std::string> sent;
  std::string wire;
  for (std::string_view rest = fuzz::text_of(data + 1 + 4 * edits, size - 1 - 4 * edits);;) {
    sent.emplace_back(rest.substr(0, 100));
    wire += client.seal(sent.back());
    if (rest.size() <= 100) break;
    rest.remove_prefix(100);
  }
  const std::string whole = wire;
  for (const std::uint8_t* edit = data + 1; edit < data + 1 + 4 * edits; edit += 4) {
    const std::size_t at = (edit[0] + 256u * edit[1]) % (wire.size() + 1);
    if (edit[2] % 3 == 0) wire.insert(at, 1 + edit[2] / 3u, static_cast<char>(edit[3]));
    if (edit[2] % 3 == 1) wire.erase(at, 1 + edit[2] / 3u);
    if (edit[2] % 3 == 2 && at < wire.size()) wire[at] = static_cast<char>(edit[3]);
  }
  std::size_t got = 0;
  const auto same = [&](const std::string& frame) {
    fuzz::expect(got < sent.size() && frame == sent[got++], "a frame that was not sent");
  };
  fuzz::takes([&] { server.receive(wire, same); });
  fuzz::expect(wire != whole || got == sent.size(), "a frame that was sent does not come");
  return 0;
}
