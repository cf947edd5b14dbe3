# One target for each reader of `gpuwhy check`, and one for all of them together. Corpus: tests/fixtures/check/captures.
if(TARGET gw_collect AND CMAKE_C_COMPILER_ID MATCHES "Clang")
  target_compile_options(gw_collect PRIVATE -fsanitize=fuzzer-no-link)
  foreach(reader smi_query smi_xml smi_table smi_csv smi_dmon smi_pmon smi_topo smi_list os_lscpu os_free os_iostat
          os_versions saved_env)
    gw_fuzz_target(${reader} SOURCES ${CMAKE_CURRENT_LIST_DIR}/fuzz_smi.c LIBS gw_collect)
    target_compile_definitions(fuzz_${reader} PRIVATE GW_FUZZ_READER=${reader})
  endforeach()
  gw_fuzz_target(smi SOURCES ${CMAKE_CURRENT_LIST_DIR}/fuzz_smi.c LIBS gw_collect)
endif()
