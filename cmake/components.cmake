# A component is a folder of src/trireme and one static library, trireme_base_os of base/os, with headers next to sources.
# Folders in it that are components of their own are not part of it. A component with a FACET also has the files of
# src/trireme/families/* that are called FACET.* or FACET_*.

add_library(trireme_flags INTERFACE)
target_include_directories(trireme_flags INTERFACE ${CMAKE_SOURCE_DIR}/src ${CMAKE_BINARY_DIR}/generated)
# No contraction of a*b+c: vector bodies and scalar tails of one loop must round alike, because
# canonical sums promise equal bits wherever a shard begins. No errno from sqrt: it keeps loops scalar.
target_compile_options(trireme_flags INTERFACE -Wall -Wextra -Wno-unused-parameter
                       -Wno-missing-field-initializers -ffp-contract=off -fno-math-errno)
target_link_libraries(trireme_flags INTERFACE Threads::Threads)
# Sources of a component are compiled together, TRIREME_UNITY_BATCH in one: most of a small source's time is its headers.
# A change of one source compiles its batch again, hence not all in one.
if(NOT DEFINED CMAKE_UNITY_BUILD)
  set(CMAKE_UNITY_BUILD ON)
endif()
if(NOT DEFINED CMAKE_UNITY_BUILD_BATCH_SIZE)
  if(TRIREME_LOCAL)
    set(CMAKE_UNITY_BUILD_BATCH_SIZE 32)
  else()
    set(CMAKE_UNITY_BUILD_BATCH_SIZE 13)
  endif()
endif()
if(CMAKE_UNITY_BUILD AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)  # a batch is no header, although sources are included
  target_compile_options(trireme_flags INTERFACE -Wno-subobject-linkage)
endif()
# Where the speed of compiling counts more than that of the code: programs' front, descriptions, tests.
add_library(trireme_quick INTERFACE)
if(CMAKE_BUILD_TYPE STREQUAL Release)
  target_compile_options(trireme_quick INTERFACE $<IF:$<BOOL:${TRIREME_TORCH}>,-O1,-O0>)
endif()
if(TRIREME_SANITIZE)
  target_compile_options(trireme_flags INTERFACE -fsanitize=${TRIREME_SANITIZE} -fno-sanitize-recover=all
                         -fno-omit-frame-pointer)
  target_link_options(trireme_flags INTERFACE -fsanitize=${TRIREME_SANITIZE})
endif()

# Headers of quick components are parsed once.
# ./dev lint compiles each source by itself, without this, which proves that it includes what it uses.
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/pch_core.cc CONTENT "")
add_library(trireme_core_pch STATIC ${CMAKE_BINARY_DIR}/pch_core.cc)
target_link_libraries(trireme_core_pch PUBLIC trireme_flags trireme_quick fmt::fmt nlohmann_json::nlohmann_json)
target_precompile_headers(trireme_core_pch PRIVATE <fmt/core.h> <nlohmann/json.hpp> <algorithm> <filesystem> <functional>
                          <map> <memory> <optional> <string> <vector>)
# Tests are many and small: gtest and gmock are parsed once.
if(TRIREME_TESTS AND NOT TRIREME_FUZZ)
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/pch_test.cc CONTENT "")
  add_library(trireme_test_pch STATIC ${CMAKE_BINARY_DIR}/pch_test.cc)
  target_link_libraries(trireme_test_pch PUBLIC trireme_flags trireme_quick fmt::fmt nlohmann_json::nlohmann_json GTest::gtest GTest::gmock)
  target_precompile_headers(trireme_test_pch PRIVATE <gtest/gtest.h> <gmock/gmock.h> <fmt/core.h>
                            <nlohmann/json.hpp> <filesystem> <functional> <map> <memory> <string> <vector>)
endif()

# Components inside folders of other components.
file(STRINGS ${CMAKE_SOURCE_DIR}/CMakeLists.txt TRIREME_INNER_COMPONENTS REGEX "^ *trireme_(torch_)?component\\([a-z]+/")
list(TRANSFORM TRIREME_INNER_COMPONENTS REPLACE "^ *trireme_[a-z_]*\\(([a-z/]+).*" "\\1")

function(trireme_component folder)
  cmake_parse_arguments(COMPONENT "QUICK;HOT;TORCH;PART" "FACET" "DEPS;LIBS;PRIVATE_LIBS" ${ARGN})
  string(REPLACE / _ name ${folder})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/trireme/${folder}/*.cc)
  foreach(inner ${TRIREME_INNER_COMPONENTS})
    if(inner MATCHES "^${folder}/")
      list(FILTER sources EXCLUDE REGEX "/src/trireme/${inner}/")
    endif()
  endforeach()
  if(COMPONENT_FACET)
    set(families ${CMAKE_SOURCE_DIR}/src/trireme/families)
    file(GLOB parts CONFIGURE_DEPENDS ${families}/*/${COMPONENT_FACET}.cc ${families}/*/${COMPONENT_FACET}_*.cc)
    list(APPEND sources ${parts})
  endif()
  trireme_built(sources)
  if(NOT sources)
    return()
  endif()
  list(TRANSFORM COMPONENT_DEPS REPLACE / _)
  list(TRANSFORM COMPONENT_DEPS PREPEND trireme_)
  add_library(trireme_${name} STATIC ${sources})
  target_link_libraries(trireme_${name} PUBLIC trireme_flags ${COMPONENT_LIBS} PRIVATE ${COMPONENT_PRIVATE_LIBS})
  if(TRIREME_LOCAL AND NOT COMPONENT_HOT)  # HOT: its loops take the time of a step
    set(COMPONENT_QUICK ON)
  endif()
  if(COMPONENT_QUICK)
    target_link_libraries(trireme_${name} PRIVATE trireme_quick)
  endif()
  foreach(dep ${COMPONENT_DEPS})
    if(TARGET ${dep})
      target_link_libraries(trireme_${name} PUBLIC ${dep})
    endif()
  endforeach()
  if(COMPONENT_QUICK AND NOT COMPONENT_TORCH)
    target_precompile_headers(trireme_${name} REUSE_FROM trireme_core_pch)
  endif()
endfunction()

function(trireme_torch_component folder)
  trireme_component(${folder} TORCH ${ARGN})
  string(REPLACE / _ name ${folder})
  if(TARGET trireme_${name})
    target_link_libraries(trireme_${name} PUBLIC trireme_torch)
    target_precompile_headers(trireme_${name} REUSE_FROM trireme_torch_pch)
  endif()
endfunction()

if(TRIREME_TORCH)
  # Headers of LibTorch are not ours to warn about.
  add_library(trireme_torch INTERFACE)
  target_include_directories(trireme_torch SYSTEM INTERFACE ${TORCH_INCLUDE_DIRS} ${GLOO_INCLUDE})
  target_link_libraries(trireme_torch INTERFACE trireme_flags ${TORCH_LIBRARIES} fmt::fmt)
  target_compile_definitions(trireme_torch INTERFACE USE_C10D_GLOO USE_DISTRIBUTED)
  if(TARGET torch_cuda)
    target_compile_definitions(trireme_torch INTERFACE TRIREME_CUDA USE_C10D_NCCL)
  endif()

  # One precompiled header for every component that needs LibTorch: tensor types and autograd, never torch/torch.h.
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/pch.cc CONTENT "")
  add_library(trireme_torch_pch STATIC ${CMAKE_BINARY_DIR}/pch.cc)
  target_link_libraries(trireme_torch_pch PUBLIC trireme_torch nlohmann_json::nlohmann_json PkgConfig::XXHASH)
  target_precompile_headers(trireme_torch_pch PRIVATE <torch/types.h> <torch/csrc/autograd/custom_function.h>
                            <fmt/core.h> <memory> <string> <vector>)
  if(TRIREME_TESTS)
    file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/pch_torch_test.cc CONTENT "")
    add_library(trireme_torch_test_pch STATIC ${CMAKE_BINARY_DIR}/pch_torch_test.cc)
    target_link_libraries(trireme_torch_test_pch PUBLIC trireme_torch trireme_quick nlohmann_json::nlohmann_json
                          PkgConfig::XXHASH GTest::gtest GTest::gmock)
    target_precompile_headers(trireme_torch_test_pch PRIVATE <torch/types.h> <torch/csrc/autograd/custom_function.h>
                              <gtest/gtest.h> <gmock/gmock.h> <fmt/core.h> <memory> <string> <vector>)
  endif()
endif()
