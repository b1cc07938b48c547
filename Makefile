# Every target works from a fresh clone: what the machine lacks is installed first (tools/setup.sh).
.DEFAULT_GOAL := all
.PHONY: all run cli check test night weekly elsewhere booted soak coverage mutants ledger bench programs papers papers-test results peers packages wheels release docs install format clean

PREFIX ?= /usr/local
DESTDIR ?=
SOAK_SECONDS ?= 3600
MACHINE ?= aarch64
VENV := build/venv
PYTHON := $(VENV)/bin/python

# build/libloft.so, build/libloft.a, the same without libc's names (libloft-core), and the single files.
all:
	@tools/setup.sh build
	@cmake --preset release -DCMAKE_INSTALL_PREFIX=$(PREFIX) --log-level=WARNING
	@cmake --build --preset release --target loft_shared loft_static loft_bounds \
	  loft_core_shared loft_core_static loft_single

# Two programs under glibc's malloc and under loft, side by side.
run:
	@echo "loft: on two processors the build takes about a minute, and the comparison half a minute more"
	@tools/setup.sh build
	@cmake --preset release -DCMAKE_INSTALL_PREFIX=$(PREFIX) --log-level=WARNING > /dev/null
	@cmake --build --preset release --target loft_shared malloc_test
	@python3 tools/run_demo.py

# The command that runs and compares programs, as build/venv/bin/loft.
cli: all
	@tools/setup.sh cli
	@$(MAKE) --no-print-directory $(VENV)/ready
	@cmake --build --preset release --target loft_command
	@echo "loft: $(VENV)/bin/loft --help"

# Before a commit: what is quick, and the unit and surface tests. At most three minutes on a warm cache.
check:
	@tools/setup.sh test
	@$(MAKE) --no-print-directory $(VENV)/ready
	@$(PYTHON) tools/check.py check

# The gate; STAGES="release asan" runs some stages, and `tools/check.py --list` names all.
test:
	@tools/setup.sh test
	@$(MAKE) --no-print-directory $(VENV)/ready
	@$(PYTHON) tools/check.py $(or $(STAGES),test)

# All else, in parts: PART=1. `make test` says which parts are old; what passes is noted in tools/passed.toml.
night weekly:
	@tools/setup.sh $@
	@$(MAKE) --no-print-directory $(VENV)/ready
	@$(PYTHON) tools/check.py $@ --part $(or $(PART),0)

# The unit, surface and storm tests on another processor, which QEMU plays: aarch64 or riscv64. It takes a quarter of an hour.
# cmake/machines/left_out*.txt say which tests are left out, and why.
elsewhere:
	@tools/setup.sh night
	@cmake --preset $(MACHINE) --log-level=WARNING
	@cmake --build --preset $(MACHINE) --target loft_tests_unit loft_tests_surface loft_tests_storm
	@ctest --preset $(MACHINE) -j $$(nproc) -L '^(unit|surface|storm)$$' -LE '^machine$$' \
	  -E "^($$(sed -n 's/^\([^# ]\+\).*/\1/p' $(wildcard cmake/machines/left_out.txt cmake/machines/left_out_$(MACHINE).txt) | paste -s -d '|'))"

# The same on a Linux of Debian's that QEMU boots, by MACHINE=x86_64 or aarch64: an older kernel, and one of its own.
# BOOTED="space large" runs the programs with these words in their names. It takes an hour.
booted:
	@tools/setup.sh booted
	@cmake --preset $(if $(filter x86_64,$(MACHINE)),release,$(MACHINE)) --log-level=WARNING
	@cmake --build --preset $(if $(filter x86_64,$(MACHINE)),release,$(MACHINE)) \
	  --target loft_tests_unit loft_tests_surface loft_tests_storm
	@python3 tools/booted.py $(MACHINE) $(BOOTED)

# An hour of forks, threads, limits and purges under all owners, half of it under the address sanitizer.
soak:
	@tools/setup.sh test
	@set -e; for preset in release asan; do \
	  cmake --preset $$preset --log-level=WARNING; \
	  cmake --build --preset $$preset --target loft_soak; \
	done
	@build/test/loft_soak $$(($(SOAK_SECONDS) / 2))
	@build/asan/test/loft_soak $$(($(SOAK_SECONDS) / 2))

# Which lines and branches of src/ the tests come to; what nothing comes to is in build/coverage/unreached.txt.
coverage:
	@tools/setup.sh depth
	@$(MAKE) --no-print-directory $(VENV)/ready
	@cmake --preset coverage --log-level=WARNING
	@cmake --build --preset coverage --target loft_shared loft_tests_unit loft_tests_surface loft_tests_storm
	@$(PYTHON) tools/cover.py

# Whether tests notice small mistakes: COUNT of each FOLDER ("remote heap cache space"), as SEED draws them.
mutants:
	@tools/setup.sh depth
	@$(MAKE) --no-print-directory $(VENV)/ready
	@$(PYTHON) tools/mutants.py $(FOLDER) $(if $(SEED),--seed $(SEED)) $(if $(COUNT),--count $(COUNT))

# What loft costs, counted, beside the last tag. UPDATE=1 writes bench/ledger.toml, with REASON="..." where
# something rose; CONTEXT=1 counts the peers, which `make peers` builds; NIGHT=1 counts what takes long, too.
ledger:
	@tools/setup.sh test
	@$(MAKE) --no-print-directory $(VENV)/ready
	@cmake --preset release --log-level=WARNING
	@cmake --build --preset release --target loft_ledger
	@$(PYTHON) tools/ledger.py $(if $(UPDATE),--update --reason="$(REASON)") $(if $(CONTEXT),--context) \
	  $(if $(NIGHT),--night)

# The allocators that loft is measured against, as build/peers/NAME.so.
peers:
	@tools/peers.sh

# BENCH=full for the long set, or any of tools/bench.py's arguments: BENCH="--update --rows 'larson*'".
bench: all peers
	@tools/setup.sh bench
	@$(MAKE) --no-print-directory $(VENV)/ready
	@cmake --build --preset release --target loft_command loft_bench $(if $(filter full,$(BENCH)),loft_variants)
	@$(PYTHON) tools/bench.py $(BENCH)
	@$(PYTHON) tools/results.py --long

# What a dozen real programs take under loft, the peers and glibc, counted. PROGRAMS for any of tools/program_costs.py's
# arguments: PROGRAMS="--inputs large --with loft,mimalloc3".
programs: peers
	@tools/setup.sh test
	@$(MAKE) --no-print-directory $(VENV)/ready
	@cmake --preset release --log-level=WARNING
	@cmake --build --preset release --target loft_ledger
	@$(PYTHON) tools/program_costs.py $(PROGRAMS)

# The papers' figures: papers/figures.md, its pictures in build/papers. PAPERS=full for the long set, or some
# of papers/figures.toml: PAPERS="snmalloc-5 batchit*", or by number, PAPERS=fig5. What these need is built, and
# they go to build/papers.md unless all others are measured, too.
papers:
	@tools/setup.sh build
	@$(MAKE) --no-print-directory $(VENV)/ready
	@cmake --preset release -DCMAKE_INSTALL_PREFIX=$(PREFIX) --log-level=WARNING
	@$(PYTHON) tools/papers.py --prepare $(PAPERS)
	@$(PYTHON) tools/papers.py $(PAPERS)

# All tests of the papers' engines: as shipped, and under both sanitizers.
papers-test:
	@tools/setup.sh test
	@set -e; for preset in release asan tsan; do \
	  cmake --preset $$preset --log-level=WARNING; \
	  cmake --build --preset $$preset --target loft_tests_papers; \
	  ctest --preset $$preset -L '^papers$$' -j 4; \
	done

# Everything in docs/results.md and README's table, measured at this commit, in about half an hour; the pages; and
# what has changed since the last tag. build/results has every table and picture.
results:
	@$(MAKE) --no-print-directory bench BENCH=results
	@$(MAKE) --no-print-directory programs PROGRAMS="--json build/costs.json"
	@$(PYTHON) tools/results.py

# build/docs: the reference of the C and C++ interface, and the figures of docs/figures.
docs:
	@tools/setup.sh docs
	@mkdir -p build/docs/figures
	@for figure in docs/figures/*.dot; do \
	  dot -Tsvg "$$figure" -o "build/docs/figures/$$(basename "$$figure" .dot).svg" || exit; \
	done
	@doxygen cmake/Doxyfile
	@echo "loft: build/docs/html/index.html, build/docs/figures"

# The loader finds libraries by its cache, which root alone writes.
install: all
	@DESTDIR=$(DESTDIR) cmake --install build
	@PATH="$$PATH:/usr/sbin:/sbin"; \
	if [ -z "$(DESTDIR)" ] && [ "$$(id -u)" = 0 ] && command -v ldconfig > /dev/null; then ldconfig; fi

# Packages of every format, in build/packages; FORMATS="deb rpm" makes some, and installs what these alone need.
packages:
	@tools/setup.sh $(or $(FORMATS),source meson vcpkg tar deb rpm apk image)
	@python3 tools/packages.py $(FORMATS)

# The wheels of every machine and C library and the sdist, in build/wheels; the tests take them from there.
wheels:
	@tools/setup.sh night
	@$(MAKE) --no-print-directory $(VENV)/ready
	@rm -rf build/wheels
	@$(PYTHON) tools/wheels.py
	@LOFT_WHEELS=build/wheels $(PYTHON) -m pytest -q test/packages/test_wheels.py

# build/release: all packages, checksums, a bill of materials, the notes (docs/internals/releases.md). REHEARSE=1 for practice.
release:
	@tools/setup.sh night
	@$(MAKE) --no-print-directory $(VENV)/ready
	@$(PYTHON) tools/make_release.py $(if $(REHEARSE),--rehearse)

format:
	@tools/setup.sh format
	@$(MAKE) --no-print-directory $(VENV)/ready
	@$(PYTHON) tools/check.py --fix format

clean:
	rm -rf build

$(VENV)/packages: tools/requirements.txt
	@echo "loft: making the Python environment $(VENV)"
	@rm -rf $(VENV)
	@python3 -m venv $(VENV)
	@$(PYTHON) -m pip install --quiet --disable-pip-version-check -r tools/requirements.txt
	@touch $@

# The command runs from the checkout, and finds the library in build/. Its version is the header's, when it is installed.
$(VENV)/ready: $(VENV)/packages include/loft/loft.h
	@$(PYTHON) -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation \
	  --config-settings=wheel.cmake=false --editable .
	@touch $@
