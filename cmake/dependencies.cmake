# Debian packages only; ./dev installs them. docs/dependencies.md gives the purpose of each.

# Conveniences, used where the machine has them.
find_program(TRIREME_CCACHE ccache)
if(TRIREME_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ccache)
endif()
find_program(TRIREME_MOLD mold)
if(TRIREME_MOLD)
  add_link_options(-fuse-ld=mold)
endif()

find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(yaml-cpp REQUIRED)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)
pkg_check_modules(UTF8PROC REQUIRED IMPORTED_TARGET libutf8proc)
pkg_check_modules(CRYPTO REQUIRED IMPORTED_TARGET libcrypto)
pkg_check_modules(SSL REQUIRED IMPORTED_TARGET libssl)
pkg_check_modules(JPEG REQUIRED IMPORTED_TARGET libturbojpeg)
pkg_check_modules(PNG REQUIRED IMPORTED_TARGET libpng)
pkg_check_modules(WEBP REQUIRED IMPORTED_TARGET libwebp libwebpdemux libwebpmux)
pkg_check_modules(DW IMPORTED_TARGET libdw)  # without it reports of hangs have no call stacks
pkg_check_modules(URING IMPORTED_TARGET liburing)  # without it scratch files are moved by threads
add_library(xxhash ALIAS PkgConfig::XXHASH)
add_library(pcre2 ALIAS PkgConfig::PCRE2)
add_library(utf8proc ALIAS PkgConfig::UTF8PROC)
add_library(crypto ALIAS PkgConfig::CRYPTO)
add_library(ssl ALIAS PkgConfig::SSL)
add_library(jpeg ALIAS PkgConfig::JPEG)
add_library(png ALIAS PkgConfig::PNG)
add_library(webp ALIAS PkgConfig::WEBP)
if(NOT TARGET yaml-cpp)
  add_library(yaml-cpp ALIAS yaml-cpp::yaml-cpp)
endif()

if(TRIREME_TORCH)
  find_package(Torch REQUIRED)
  # LibTorch's own flags leak into every target through CMAKE_CXX_FLAGS; the imported target carries
  # what is needed.
  find_path(GLOO_INCLUDE gloo/algorithm.h)
  find_library(GLOO_LIBRARY gloo)
  if(NOT GLOO_INCLUDE OR NOT GLOO_LIBRARY)
    message(FATAL_ERROR "gloo not found: install libgloo-dev (./dev does)")
  endif()
  pkg_check_modules(HIGHWAY REQUIRED IMPORTED_TARGET libhwy)
  add_library(highway ALIAS PkgConfig::HIGHWAY)
  # The names of instruction sets differ between its releases.
  find_file(TRIREME_HIGHWAY_TARGETS hwy/detect_targets.h)
  set(TRIREME_UNUSED_TARGETS HWY_SSSE3|HWY_SSE4)
  foreach(target HWY_AVX3_DL HWY_AVX3_ZEN4 HWY_AVX3_SPR HWY_AVX10_2)
    file(STRINGS ${TRIREME_HIGHWAY_TARGETS} found REGEX "define ${target} ")
    if(found)
      string(APPEND TRIREME_UNUSED_TARGETS "|${target}")
    endif()
  endforeach()
  # The library LibTorch itself multiplies bf16 with; its CMake package wants OpenCL headers. Without it
  # ops multiply through LibTorch.
  find_path(ONEDNN_INCLUDE dnnl.hpp)
  find_library(ONEDNN_LIBRARY dnnl)
endif()

if(TRIREME_TESTS AND NOT TRIREME_FUZZ)
  find_package(GTest REQUIRED)
endif()
