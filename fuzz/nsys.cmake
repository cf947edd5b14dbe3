# Fuzz targets of the importers of Nsight and XLA output.
if(CMAKE_C_COMPILER_ID MATCHES "Clang")
  gw_fuzz_target(xla SOURCES ${CMAKE_CURRENT_LIST_DIR}/fuzz_xla.c LIBS gw_import)
  gw_fuzz_target(ncu SOURCES ${CMAKE_CURRENT_LIST_DIR}/fuzz_ncu.c LIBS gw_import)
  if(GW_FOUND_SQLITE)
    gw_fuzz_target(nsys SOURCES ${CMAKE_CURRENT_LIST_DIR}/fuzz_nsys.c LIBS gw_import)
  endif()
endif()
