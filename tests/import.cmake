# Importers: the reader of torch.profiler traces and what it is made of.
add_executable(dump_events ${CMAKE_CURRENT_LIST_DIR}/dump_events.c)
target_link_libraries(dump_events PRIVATE gw_import)

gw_unit_test(import_decimal SOURCES test_import_decimal.c LIBS gw_import)
gw_unit_test(import_kineto SOURCES test_import_kineto.c LIBS gw_import)
gw_unit_test(import_damage SOURCES test_import_damage.c LIBS gw_import)
gw_unit_test(import_stream SOURCES test_import_stream.c LIBS gw_import)
gw_unit_test(record_hook SOURCES test_record_hook.c LIBS gw_import)

gw_python_test(import_diff diff_reader.py $<TARGET_FILE:dump_events> --traces none)
gw_python_test(import_diff_traces diff_reader.py $<TARGET_FILE:dump_events> --random 0 --traces ${GW_TRACES_DIR})
if(TEST import_diff_traces)
  set_tests_properties(import_diff_traces PROPERTIES TIMEOUT 900) # a million events, one by one, in Python
endif()

# The fuzz corpus, through the fuzz target.
add_executable(replay_kineto ${CMAKE_CURRENT_LIST_DIR}/../fuzz/replay.c ${CMAKE_CURRENT_LIST_DIR}/../fuzz/fuzz_kineto.c)
target_link_libraries(replay_kineto PRIVATE gw_import)
add_test(NAME fuzz.kineto COMMAND replay_kineto ${CMAKE_CURRENT_LIST_DIR}/../fuzz/corpus/kineto)
set_tests_properties(fuzz.kineto PROPERTIES TIMEOUT 300)
