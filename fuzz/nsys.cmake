# Fuzz targets of the Nsight importers.
if(CMAKE_C_COMPILER_ID MATCHES "Clang")
  gw_fuzz_target(ncu SOURCES ${CMAKE_CURRENT_LIST_DIR}/fuzz_ncu.c LIBS gw_import)
  if(GW_FOUND_SQLITE)
    gw_fuzz_target(nsys SOURCES ${CMAKE_CURRENT_LIST_DIR}/fuzz_nsys.c LIBS gw_import)
  endif()
endif()
