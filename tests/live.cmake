# Tests of what gpuwhy run reads beside the GPU's work: Python stacks of other processes, and the settings hook.
if(TARGET gw_proc)
  add_executable(py_stack_dump ${CMAKE_CURRENT_LIST_DIR}/py_stack_dump.c)
  target_link_libraries(py_stack_dump PRIVATE gw_proc)
  gw_python_test(py_stack test_py_stack.py $<TARGET_FILE:py_stack_dump>)
endif()
if(TARGET gpuwhy AND TARGET fake_cupti AND NOT GW_SANITIZE AND NOT GW_TSAN) # Python does not load sanitized libraries
  gw_python_test(live test_live.py ${CMAKE_BINARY_DIR})
  gw_python_test(windows test_windows.py ${CMAKE_BINARY_DIR})
  gw_python_test(status test_status.py ${CMAKE_BINARY_DIR})
  set_tests_properties(windows PROPERTIES RUN_SERIAL ON) # real windows on a real clock
endif()
gw_python_test(hook test_hook.py ${CMAKE_SOURCE_DIR}/python/gpuwhy_hook)
gw_python_test(hook.torch test_hook_torch.py ${CMAKE_SOURCE_DIR}/python/gpuwhy_hook)
gw_python_test(hook.steps test_hook_steps.py ${CMAKE_SOURCE_DIR}/python/gpuwhy_hook)
