# A thin front for CMake. `make demo` and `make test` are all that a newcomer needs.
#
#   make            build build/gpuwhy
#   make demo       install what is missing, build, diagnose a bundled recording
#   make test       install what is missing, build three ways, run every test
#   make install    PREFIX=/usr/local DESTDIR=          make uninstall
#   make asan | tsan | clang | minimal                  other builds (CMakePresets.json), with tests where they have any
#   make fuzz       a short run of each fuzz target     FUZZ_SECONDS=30
#   make bench      benchmarks, beside other readers    make docs      the generated pages
#   make format     clang-format                        make tidy      clang-tidy
#   make clean      remove the build folders that this file makes
#
# Variables: JOBS (default: one a processor), WERROR=OFF when a newer compiler than ours warns.

PREFIX ?= /usr/local
DESTDIR ?=
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
WERROR ?= ON
FUZZ_SECONDS ?= 30
SAMPLE ?= samples/item_sync.json.gz
CTEST_ARGS =
CTEST = ctest --output-on-failure -j $(JOBS) $(CTEST_ARGS)
BUILDS = build build-dev build-asan build-tsan build-clang build-minimal build-fuzz
SOURCES = git ls-files 'src/*.[ch]' 'inject/*.[ch]' 'tests/*.[ch]' 'fuzz/*.[ch]' 'bench/*.[ch]'

.PHONY: all build demo test deps install uninstall asan tsan clang minimal fuzz bench docs format tidy clean help

all: build

deps:
	@scripts/install-deps build

build:
	@cmake --preset release $(CMAKE_ARGS)
	@cmake --build build -j $(JOBS) $(if $(TARGET),--target $(TARGET))

demo: deps
	@$(MAKE) --no-print-directory build TARGET=gpuwhy
	@echo; echo '$$ build/gpuwhy read $(SAMPLE)'; echo
	@build/gpuwhy read $(SAMPLE)

# The plain build comes last, so that its summary is what is seen at the end.
test:
	@scripts/install-deps test
	@echo '== minimal: every optional part left out'
	@$(MAKE) --no-print-directory minimal
	@echo '== asan: AddressSanitizer and UndefinedBehaviorSanitizer'
	@$(MAKE) --no-print-directory asan CTEST_ARGS='-LE once'
	@echo '== release'
	@$(MAKE) --no-print-directory build CMAKE_ARGS=-DGW_WERROR=$(WERROR)
	@cd build && $(CTEST)

asan tsan clang:
	@cmake --preset $@ -DGW_WERROR=$(WERROR)
	@cmake --build build-$@ -j $(JOBS)
	@cd build-$@ && $(CTEST)

minimal:
	@cmake --preset $@ -DGW_WERROR=$(WERROR)
	@cmake --build build-$@ -j $(JOBS)
	@build-minimal/gpuwhy --version

fuzz:
	@cmake --preset fuzz
	@cmake --build build-fuzz -j $(JOBS)
	@scripts/fuzz-all build-fuzz $(FUZZ_SECONDS)

bench: build
	@for b in bench/bench_*.py; do echo "== $$b"; python3 "$$b" $(BENCH_ARGS) || exit 1; done

docs: build
	@scripts/make-docs build/gpuwhy

install: deps
	@cmake --preset release -DCMAKE_INSTALL_PREFIX=$(PREFIX)
	@cmake --build build -j $(JOBS)
	@DESTDIR=$(DESTDIR) cmake --install build

uninstall: deps
	@test -f build/install_manifest.txt || { echo 'nothing was installed from this folder: build/install_manifest.txt is missing'; exit 1; }
	@sed 's|^|$(DESTDIR)|' build/install_manifest.txt | while IFS= read -r f || [ -n "$$f" ]; do rm -fv -- "$$f"; done

format:
	@$(SOURCES) | xargs clang-format -i

tidy:
	@cmake --preset clang >/dev/null
	@$(SOURCES) | grep '\.c$$' | xargs -P $(JOBS) -n 4 clang-tidy -p build-clang --quiet

clean:
	@rm -rf $(BUILDS)

help:
	@sed -n '/^#/!q; s/^# \{0,1\}//p' Makefile
