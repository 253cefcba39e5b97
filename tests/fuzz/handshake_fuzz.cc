// What strangers may send to an agent's port, and to a rank that takes a stranger for its agent.
#include <algorithm>
#include <utility>

#include "tests/fuzz/target.h"
#include "trireme/launch/elastic/frame.h"

using namespace trireme;
using elastic::Session;

namespace {

void talk(Session session, std::string_view bytes, std::size_t piece) {
  fuzz::takes([&] {
    for (; !bytes.empty(); bytes.remove_prefix(std::min(piece, bytes.size())))
      session.receive(bytes.substr(0, piece),
                      [](const std::string&) { throw fuzz::Finding("a frame without the token"); });
  });
  fuzz::expect(!session.open(), "open without the token");
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes = fuzz::text_of(data, size);
  for (const std::size_t piece : {std::size_t{1} << 20, std::size_t{7}}) {
    static const elastic::Sessions sessions("the token of this run");
    talk(sessions.accept(), bytes, piece);
    Session client = sessions.connect(elastic::Caller::kAgent);
    client.greeting();
    talk(std::move(client), bytes, piece);
  }
  return 0;
}
