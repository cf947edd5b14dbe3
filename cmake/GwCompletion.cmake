# Completion for shells: the program writes it from its own tables, so it is made after the program and never out of step.
if(CMAKE_CROSSCOMPILING)
  message(STATUS "gpuwhy: cross-compiling; no completion for shells")
  return()
endif()
set(completion ${CMAKE_BINARY_DIR}/completion)
add_custom_command(OUTPUT ${completion}/gpuwhy.bash ${completion}/_gpuwhy ${completion}/gpuwhy.fish
  COMMAND ${CMAKE_COMMAND} -E make_directory ${completion}
  COMMAND gpuwhy help --completion bash > ${completion}/gpuwhy.bash
  COMMAND gpuwhy help --completion zsh > ${completion}/_gpuwhy
  COMMAND gpuwhy help --completion fish > ${completion}/gpuwhy.fish
  DEPENDS gpuwhy
  COMMENT "Completion for bash, zsh and fish" VERBATIM)
add_custom_target(completion ALL DEPENDS ${completion}/gpuwhy.bash)
install(FILES ${completion}/gpuwhy.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME gpuwhy)
install(FILES ${completion}/_gpuwhy DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
install(FILES ${completion}/gpuwhy.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
