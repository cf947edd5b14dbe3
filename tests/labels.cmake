# Recorded jobs whose trouble is known: the verdict, silence where it is due, and gains.
gw_python_test(labels check_labels.py $<TARGET_FILE:gpuwhy> ${CMAKE_CURRENT_SOURCE_DIR}/traces)
