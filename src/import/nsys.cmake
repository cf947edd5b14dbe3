# Importers of Nsight Systems, Nsight Compute and XLA output, into the library that CMakeLists.txt made.
target_sources(gw_import PRIVATE nsys.c ncu.c ncu_csv.c ncu_lines.c ncu_text.c xla.c xla_event.c)
if(GW_FOUND_SQLITE)
  target_sources(gw_import PRIVATE nsys_db.c nsys_scan.c nsys_plan.c nsys_info.c nsys_gpu.c nsys_host.c nsys_metrics.c)
endif()
target_link_libraries(gw_import PUBLIC gw_opt_sqlite Threads::Threads)
