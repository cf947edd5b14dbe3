# The program as a user meets it: options, exit statuses, streams, signals; and the manual page.
if(TARGET gpuwhy)
  gw_python_test(cli cli_test.py $<TARGET_FILE:gpuwhy> ${CMAKE_SOURCE_DIR}/samples)
  gw_python_test(zh_cn test_zh_cn.py $<TARGET_FILE:gpuwhy> ${CMAKE_SOURCE_DIR})
  gw_python_test(man_page check_man.py $<TARGET_FILE:gpuwhy> ${CMAKE_SOURCE_DIR}/docs/man)
  if(TARGET gw_collect AND TARGET gw_record) # with every command, as the pages are made
    add_test(NAME docs_made COMMAND ${CMAKE_SOURCE_DIR}/scripts/make-docs $<TARGET_FILE:gpuwhy> --check)
  endif()
  gw_python_test(docs_commands test_docs_commands.py $<TARGET_FILE:gpuwhy> ${CMAKE_SOURCE_DIR})
  gw_python_test(completion test_completion.py $<TARGET_FILE:gpuwhy>)
  file(GLOB samples CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/samples/*.json.gz)
  gw_python_test(json_contract check_json.py --gpuwhy $<TARGET_FILE:gpuwhy> ${samples})
endif()
