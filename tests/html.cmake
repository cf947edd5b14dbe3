# HTML reports: the timeline's sums and the escapes; pages taken apart; pages in a browser, where one is there.
gw_unit_test(html_timeline SOURCES test_html_timeline.c LIBS gw_report text_trace)
if(TARGET gpuwhy)
  set(html_inputs $<TARGET_FILE:gpuwhy> $<TARGET_FILE:report_samples> ${CMAKE_SOURCE_DIR})
  gw_python_test(html test_html.py ${html_inputs})
  gw_python_test(html_browser test_html_browser.py ${html_inputs} ${CMAKE_BINARY_DIR}/web-test)
endif()
