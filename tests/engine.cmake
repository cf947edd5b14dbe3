# The base, the event model, the engine and every diagnosis: without any trace file.
add_library(text_trace STATIC text_trace.c text_host.c engine_check.c)
target_link_libraries(text_trace PUBLIC gw_layers)
target_include_directories(text_trace PUBLIC ${CMAKE_CURRENT_SOURCE_DIR})

# tests/cases/*.txt: events in, diagnosis out. One line of output a case.
add_executable(run_cases run_cases.c)
target_link_libraries(run_cases PRIVATE text_trace)
add_test(NAME cases COMMAND run_cases ${CMAKE_CURRENT_SOURCE_DIR}/cases)
set_tests_properties(cases PROPERTIES TIMEOUT 300)

gw_unit_test(base SOURCES test_base.c LIBS gw_base)
gw_unit_test(model SOURCES test_model.c LIBS text_trace)
gw_unit_test(engine_timeline SOURCES test_engine_timeline.c LIBS text_trace)
gw_unit_test(engine_names SOURCES test_engine_names.c LIBS gw_engine)
gw_unit_test(engine_steps SOURCES test_engine_steps.c LIBS text_trace)
gw_unit_test(engine_replay SOURCES test_engine_replay.c LIBS text_trace)
gw_unit_test(engine_random SOURCES test_engine_random.c LIBS text_trace)
