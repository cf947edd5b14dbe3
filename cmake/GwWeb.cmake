# What pages are made of: web/ as C, and the plot library from npm where that can be had. Everything builds without npm
# and without a network; pages then show the times of steps as a static picture.
find_program(GW_NPM npm)
set(GW_WEB_DIR ${CMAKE_BINARY_DIR}/web)
set(GW_UPLOT_DIR ${GW_WEB_DIR}/node_modules/uplot)
file(SHA256 ${CMAKE_SOURCE_DIR}/web/package-lock.json GW_WEB_LOCK)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/web/package-lock.json)

# Once for each state of the lock file: a failure is not tried again until the build folder is new or ON is asked for.
function(gw_fetch_uplot)
  if(EXISTS ${GW_UPLOT_DIR}/dist/uPlot.iife.min.js AND GW_WEB_FETCHED STREQUAL GW_WEB_LOCK)
    return()
  endif()
  if(NOT GW_NPM)
    set(why "npm was not found")
  elseif(GW_WEB_FAILED STREQUAL GW_WEB_LOCK AND NOT GW_WITH_UPLOT STREQUAL "ON")
    set(why "npm could not fetch it before")
  else()
    file(COPY ${CMAKE_SOURCE_DIR}/web/package.json ${CMAKE_SOURCE_DIR}/web/package-lock.json DESTINATION ${GW_WEB_DIR})
    execute_process(
      COMMAND ${GW_NPM} ci --omit=dev --ignore-scripts --no-audit --no-fund --prefer-offline
              --fetch-retries=0 --fetch-timeout=15000
      WORKING_DIRECTORY ${GW_WEB_DIR} TIMEOUT 60 RESULT_VARIABLE rc OUTPUT_QUIET ERROR_FILE ${GW_WEB_DIR}/npm-errors.txt)
    if(rc EQUAL 0 AND EXISTS ${GW_UPLOT_DIR}/dist/uPlot.iife.min.js)
      set(GW_WEB_FETCHED ${GW_WEB_LOCK} CACHE INTERNAL "")
      return()
    endif()
    set(GW_WEB_FAILED ${GW_WEB_LOCK} CACHE INTERNAL "")
    set(why "npm could not fetch it (${GW_WEB_DIR}/npm-errors.txt)")
  endif()
  file(REMOVE_RECURSE ${GW_UPLOT_DIR})
  if(GW_WITH_UPLOT STREQUAL "ON")
    message(FATAL_ERROR "gpuwhy: UPLOT was asked for, but ${why}")
  endif()
  message(STATUS "gpuwhy: uPlot is left out: ${why}; HTML reports show step times as a static picture")
endfunction()

if(GW_WITH_UPLOT STREQUAL "OFF")
  message(STATUS "gpuwhy: UPLOT switched off; HTML reports show step times as a static picture")
  file(REMOVE_RECURSE ${GW_UPLOT_DIR})
else()
  gw_fetch_uplot()
endif()

set(GW_WEB_SOURCES web/page.css web/page.js web/timeline.js web/plot.js)
list(TRANSFORM GW_WEB_SOURCES PREPEND ${CMAKE_SOURCE_DIR}/)
set(GW_UPLOT_FILES "")
if(EXISTS ${GW_UPLOT_DIR}/dist/uPlot.iife.min.js)
  set(GW_UPLOT_FILES ${GW_UPLOT_DIR}/dist/uPlot.iife.min.js ${GW_UPLOT_DIR}/dist/uPlot.min.css ${GW_UPLOT_DIR}/LICENSE)
endif()
add_custom_command(
  OUTPUT ${GW_WEB_DIR}/html_assets.c
  COMMAND ${CMAKE_COMMAND} -DWEB=${CMAKE_SOURCE_DIR}/web -DUPLOT=${GW_UPLOT_DIR} -DOUT=${GW_WEB_DIR}/html_assets.c
          -P ${CMAKE_SOURCE_DIR}/cmake/GwEmbed.cmake
  DEPENDS ${GW_WEB_SOURCES} ${GW_UPLOT_FILES} ${CMAKE_SOURCE_DIR}/cmake/GwEmbed.cmake
  COMMENT "Embedding what HTML reports are made of")
