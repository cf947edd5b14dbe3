# The reader of JSON reports, and what a report goes through after it.
if(GW_FOUND_JANSSON AND CMAKE_C_COMPILER_ID MATCHES "Clang")
  foreach(lib gw_engine gw_report)
    target_compile_options(${lib} PRIVATE -fsanitize=fuzzer-no-link)
  endforeach()
  gw_fuzz_target(report SOURCES ${CMAKE_CURRENT_LIST_DIR}/fuzz_report.c LIBS gw_report)
endif()
