# The renderers: units, golden files, and the JSON contract.
gw_unit_test(fmt SOURCES test_fmt.c LIBS gw_report)
gw_unit_test(text SOURCES test_text.c LIBS gw_report)
gw_unit_test(json_writer SOURCES test_json_writer.c LIBS gw_report)

add_executable(report_samples report_samples.c)
target_link_libraries(report_samples PRIVATE gw_report)
gw_python_test(report_golden check_golden.py $<TARGET_FILE:report_samples>)
gw_python_test(report_json check_json.py --samples $<TARGET_FILE:report_samples>)
