# Ranks of a job, comparisons of recordings, and exports.
add_library(rank_text STATIC rank_text.c)
target_link_libraries(rank_text PUBLIC gw_layers)
target_include_directories(rank_text PUBLIC ${CMAKE_CURRENT_SOURCE_DIR})
gw_unit_test(ranks SOURCES test_ranks.c LIBS rank_text text_trace)
gw_unit_test(diff SOURCES test_diff.c LIBS gw_engine)
if(TARGET gpuwhy)
  gw_python_test(ranks ranks_test.py $<TARGET_FILE:gpuwhy> ${GW_TRACES_DIR})
endif()
