#include "trireme/launch/elastic/secret.h"

#include <openssl/crypto.h>
#include <openssl/hmac.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "trireme/base/error.h"

namespace trireme::elastic {

std::string hmac(std::string_view key, std::string_view text) {
  std::string mac(kMacBytes, '\0');
  const unsigned char* made =
      ::HMAC(::EVP_sha256(), key.data(), static_cast<int>(key.size()),
             reinterpret_cast<const unsigned char*>(text.data()), text.size(),
             reinterpret_cast<unsigned char*>(mac.data()), nullptr);
  TRIREME_CHECK(made != nullptr, "HMAC-SHA256 of {} bytes", text.size());
  return mac;
}

bool same_secret(std::string_view a, std::string_view b) {
  return a.size() == b.size() && ::CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::string random_bytes(std::size_t count) {
  constexpr std::size_t kWhole = 256;  // so much comes at once or not at all
  TRIREME_CHECK(count <= kWhole, "{} random bytes", count);
  std::string bytes(count, '\0');
  const ssize_t got = ::getrandom(bytes.data(), count, 0);
  TRIREME_CHECK(got == static_cast<ssize_t>(count), "getrandom: {}", std::strerror(errno));
  return bytes;
}

std::string read_token(const Path& file) {
  constexpr std::size_t kLeast = 16, kMost = 4096;
  struct stat info {};
  if (::stat(file.c_str(), &info) != 0)
    fail(ErrorKind::kUsage, "token file {}: {}; make one: head -c 32 /dev/urandom | base64",
         file.string(), std::strerror(errno));
  if (!S_ISREG(info.st_mode) || (info.st_mode & 077) != 0 || info.st_uid != ::geteuid())
    fail(ErrorKind::kUsage,
         "token file {}: mode {:o}, owner {}; needs a file of yours that others cannot read: "
         "chmod 600",
         file.string(), info.st_mode & 07777, info.st_uid);
  std::string token = read_file(file, kMost);
  token.erase(token.find_last_not_of(" \t\r\n") + 1);
  if (token.size() < kLeast)
    fail(ErrorKind::kUsage, "token file {}: {} bytes; needs at least {}", file.string(),
         token.size(), kLeast);
  return token;
}

}  // namespace trireme::elastic
