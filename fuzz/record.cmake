# The reader of records, and what comes after it.
if(TARGET gw_record)
  gw_fuzz_target(record SOURCES ${CMAKE_CURRENT_LIST_DIR}/fuzz_record.c LIBS gw_import gw_layers gw_record)
endif()
if(TARGET gw_collect AND TARGET gw_record)
  gw_fuzz_target(machine SOURCES ${CMAKE_CURRENT_LIST_DIR}/fuzz_machine.c LIBS gw_collect gw_record)
endif()
