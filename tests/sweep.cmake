# Tests of gpuwhy sweep: the arithmetic over made-up curves, and real jobs with real worker pools.
gw_unit_test(sweep SOURCES test_sweep.c LIBS gw_sweep)
gw_python_test(sweep.hook test_sweep_hook.py ${CMAKE_SOURCE_DIR}/python/gpuwhy_hook)
if(TARGET gpuwhy AND TARGET gw_record)
  gw_python_test(sweep test_sweep_jobs.py ${CMAKE_BINARY_DIR})
  if(TEST sweep)
    set_tests_properties(sweep PROPERTIES RUN_SERIAL ON)
  endif()
endif()
