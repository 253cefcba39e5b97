// write_seeds DIR: each seed as a file DIR/TARGET/NUMBER.
#include <filesystem>
#include <fstream>

#include "tests/fuzz/seeds.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  for (const auto& [target, texts] : trireme::fuzz::seeds()) {
    const std::filesystem::path directory = std::filesystem::path(argv[1]) / target;
    std::filesystem::create_directories(directory);
    for (std::size_t i = 0; i < texts.size(); ++i)
      std::ofstream(directory / std::to_string(i), std::ios::binary)
          .write(texts[i].data(), static_cast<std::streamsize>(texts[i].size()));
  }
}
