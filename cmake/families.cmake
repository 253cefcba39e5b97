# The families of models, in the order in which texts name them: one line each. Each has a folder of src/trireme/families,
# whose files belong to components by the beginning of their names (FACET in CMakeLists.txt). A family without a file NAME.cc of
# a component has nothing of its own there.
set(TRIREME_DECODERS
    gpt
    llama
    neox)
set(TRIREME_OTHER_FAMILIES
    vit
    clip
    hnet
    vlm
    arrcoc
    jepa
    hvjepa
    probe
    jepa_ac)
set(TRIREME_ALL_FAMILIES ${TRIREME_DECODERS} ${TRIREME_OTHER_FAMILIES})

# JepaAc of jepa_ac.
function(trireme_camel_case name variable)
  string(REPLACE _ ";" words ${name})
  set(result)
  foreach(word ${words})
    string(SUBSTRING ${word} 0 1 first)
    string(SUBSTRING ${word} 1 -1 rest)
    string(TOUPPER ${first} first)
    string(APPEND result ${first}${rest})
  endforeach()
  set(${variable} ${result} PARENT_SCOPE)
endfunction()

# trireme_list_families(LIST FILE FAMILY...): writes generated/trireme/families/LIST.inc, in which each of the families that has
# FILE is TRIREME_FAMILY(NAME, ID).
function(trireme_list_families list file)
  set(rows)
  foreach(family ${ARGN})
    if(EXISTS ${CMAKE_SOURCE_DIR}/src/trireme/families/${family}/${file})
      trireme_camel_case(${family} id)
      string(APPEND rows "TRIREME_FAMILY(${family}, k${id})\n")
    endif()
  endforeach()
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/trireme/families/${list}.inc CONTENT "${rows}" @ONLY)
endfunction()

# Sections of a job that are families' own: struct FamilySections has those that keys.h of a family declares, as struct
# JepaAcSections.
function(trireme_join_sections)
  set(includes)
  set(bases)
  foreach(family ${TRIREME_ALL_FAMILIES})
    if(EXISTS ${CMAKE_SOURCE_DIR}/src/trireme/families/${family}/keys.h)
      trireme_camel_case(${family} id)
      string(APPEND includes "#include \"trireme/families/${family}/keys.h\"\n")
      list(APPEND bases ${id}Sections)
    endif()
  endforeach()
  list(JOIN bases ", " bases)
  set(text "#pragma once\n\n${includes}\nnamespace trireme::config {\n\nstruct FamilySections : ${bases} {\n")
  string(APPEND text "  bool operator==(const FamilySections&) const = default;\n};\n\n}  // namespace trireme::config\n")
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/trireme/families/sections.h CONTENT "${text}" @ONLY)
endfunction()

# Every name has its folder, and every folder its name. New files are found when CMake runs again.
foreach(family ${TRIREME_ALL_FAMILIES})
  foreach(file keys.cc model.cc blocks.cc)
    if(NOT EXISTS ${CMAKE_SOURCE_DIR}/src/trireme/families/${family}/${file})
      message(FATAL_ERROR "cmake/families.cmake names ${family}: src/trireme/families/${family}/${file} is missing")
    endif()
  endforeach()
endforeach()
file(GLOB folders RELATIVE ${CMAKE_SOURCE_DIR}/src/trireme/families CONFIGURE_DEPENDS
     ${CMAKE_SOURCE_DIR}/src/trireme/families/*/keys.cc ${CMAKE_SOURCE_DIR}/src/trireme/families/*/keys.h)
list(TRANSFORM folders REPLACE "/.*" "")
foreach(folder ${folders})
  if(NOT folder IN_LIST TRIREME_ALL_FAMILIES)
    message(FATAL_ERROR "src/trireme/families/${folder} is not named in cmake/families.cmake")
  endif()
endforeach()

foreach(facet keys model samples prices hugging_face)
  trireme_list_families(${facet} ${facet}.cc ${TRIREME_ALL_FAMILIES})
endforeach()
trireme_list_families(sections keys.h ${TRIREME_ALL_FAMILIES})
trireme_join_sections()

# Blocks alone are left out of a build for decoders: all of a family that needs LibTorch and many minutes.
if(NOT TRIREME_FAMILIES MATCHES "^(all|decoders)$")
  message(FATAL_ERROR "TRIREME_FAMILIES=${TRIREME_FAMILIES}: choose all, or decoders")
endif()
if(TRIREME_FAMILIES STREQUAL all)
  trireme_list_families(blocks blocks.cc ${TRIREME_ALL_FAMILIES})
else()
  trireme_list_families(blocks blocks.cc ${TRIREME_DECODERS})
  list(JOIN TRIREME_OTHER_FAMILIES | others)
  list(APPEND TRIREME_LEFT_OUT "/families/(${others})/blocks[^/]*\\.cc$")
  set(TRIREME_IS_PARTIAL ON)
endif()
