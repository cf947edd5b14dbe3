# Tests of the importers of Nsight Systems, Nsight Compute and XLA output.
gw_unit_test(ncu SOURCES test_ncu.c LIBS gw_import)
gw_unit_test(xla SOURCES test_xla.c LIBS gw_import)
set(formats ncu xla)

if(GW_FOUND_SQLITE)
  list(APPEND formats nsys)
  gw_unit_test(nsys SOURCES test_nsys.c nsys_build.c LIBS gw_import gw_opt_sqlite)
  gw_unit_test(nsys_damage SOURCES test_nsys_damage.c nsys_build.c LIBS gw_import gw_opt_sqlite)
  # Other people's exports, when they are there: the sums of the whole window, to the nanosecond.
  add_executable(nsys_account ${CMAKE_CURRENT_LIST_DIR}/nsys_account.c)
  target_link_libraries(nsys_account PRIVATE gw_import)
  gw_python_test(nsys.accounting test_nsys_accounting.py $<TARGET_FILE:nsys_account> ${GW_TRACES_DIR}/nsys)
endif()

# The fuzz corpora, through the fuzz targets.
foreach(format ${formats})
  add_executable(replay_${format} ${CMAKE_CURRENT_LIST_DIR}/../fuzz/replay.c
                 ${CMAKE_CURRENT_LIST_DIR}/../fuzz/fuzz_${format}.c)
  target_link_libraries(replay_${format} PRIVATE gw_import)
  add_test(NAME fuzz.${format} COMMAND replay_${format} ${CMAKE_CURRENT_LIST_DIR}/../fuzz/corpus/${format})
  set_tests_properties(fuzz.${format} PROPERTIES TIMEOUT 300)
endforeach()

# Counters of Nsight Compute beside recordings.
if(TARGET gpuwhy)
  gw_python_test(ncu_joined ncu_test.py $<TARGET_FILE:gpuwhy> ${CMAKE_CURRENT_SOURCE_DIR}/traces ${GW_TRACES_DIR}/kineto/dlrm8)
endif()
