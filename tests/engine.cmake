# The base, the event model, the engine and every diagnosis: without any trace file.
add_library(text_trace STATIC text_trace.c engine_check.c)
target_link_libraries(text_trace PUBLIC gw_layers)
target_include_directories(text_trace PUBLIC ${CMAKE_CURRENT_SOURCE_DIR})

# tests/cases/*.txt: events in, diagnosis out. One line of output a case.
add_executable(run_cases run_cases.c)
target_link_libraries(run_cases PRIVATE text_trace)
add_test(NAME cases COMMAND run_cases ${CMAKE_CURRENT_SOURCE_DIR}/cases)
set_tests_properties(cases PROPERTIES TIMEOUT 300)
