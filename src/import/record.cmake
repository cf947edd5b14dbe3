# The reader of records that `gpuwhy run` writes, into the library that CMakeLists.txt made.
target_sources(gw_import PRIVATE record.c record_cuda.c record_names.c)
target_link_libraries(gw_import PUBLIC gw_record ${CMAKE_DL_LIBS})
