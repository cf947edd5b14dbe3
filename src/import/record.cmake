# The reader of records that `gpuwhy run` writes, into the library that CMakeLists.txt made.
target_sources(gw_import PRIVATE record.c record_cuda.c record_calls.c record_facts.c record_hook.c record_host.c record_names.c record_pm.c record_state.c)
target_link_libraries(gw_import PUBLIC gw_record ${CMAKE_DL_LIBS})
