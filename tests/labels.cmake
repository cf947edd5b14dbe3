# Recorded jobs whose trouble is known: the verdict, silence where it is due, and gains.
gw_python_test(labels check_labels.py $<TARGET_FILE:gpuwhy> ${CMAKE_CURRENT_SOURCE_DIR}/traces)
# The same without operators in the recordings.
gw_python_test(labels_bare strip_test.py $<TARGET_FILE:gpuwhy> ${CMAKE_CURRENT_SOURCE_DIR}/traces ${GW_TRACES_DIR}/h200 ${GW_TRACES_DIR}/kineto)
