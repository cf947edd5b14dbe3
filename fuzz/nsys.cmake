# Fuzz targets of the Nsight importers.
foreach(name nsys ncu)
  if(name STREQUAL "nsys" AND NOT GW_FOUND_SQLITE)
    continue()
  endif()
  add_executable(fuzz_${name} ${CMAKE_CURRENT_SOURCE_DIR}/fuzz_${name}.c)
  target_link_libraries(fuzz_${name} PRIVATE gw_import)
  target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
endforeach()
