# Tests of gpuwhy sweep: the arithmetic over made-up curves, and real jobs with real worker pools.
gw_unit_test(sweep SOURCES test_sweep.c LIBS gw_sweep)
