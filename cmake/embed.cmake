# Writes the YAML files of clusters/ into a source file, so that programs need no folder beside them.
#   cmake -DFOLDER=clusters -DOUT=shipped.cc -P embed.cmake
function(embed folder function out)
  file(GLOB names RELATIVE "${folder}" "${folder}/*.yaml")
  list(TRANSFORM names REPLACE "\\.yaml$" "")
  list(SORT names)
  set(code "std::span<const ShippedFile> ${function}() {\n  static constexpr ShippedFile kFiles[] = {\n")
  foreach(name IN LISTS names)
    file(READ "${folder}/${name}.yaml" text)
    string(APPEND code "      {\"${name}\", R\"yaml(${text})yaml\"},\n")
  endforeach()
  string(APPEND code "  };\n  return kFiles;\n}\n\n")
  file(APPEND "${out}" "${code}")
endfunction()

file(WRITE "${OUT}" "#include \"trireme/planner/hardware/shipped.h\"\n\nnamespace trireme::planner {\n\n")
embed("${FOLDER}" shipped_cluster_files "${OUT}")
embed("${FOLDER}/gpus" shipped_gpu_files "${OUT}")
file(APPEND "${OUT}" "}  // namespace trireme::planner\n")
