# PO -> OUT with %<PRId64> as this machine's compiler sees it: INT64 is "l" or "ll".
file(READ ${PO} text)
foreach(c d i u x)
  string(REPLACE "<PRI${c}64>" "${INT64}${c}" text "${text}")
endforeach()
file(WRITE ${OUT} "${text}")
