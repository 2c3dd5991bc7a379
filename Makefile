# What people do with this repository. `make` alone lists it.
#
# Each target sets up what it needs (scripts/setup.sh) and says what is missing
# if it cannot.

.DEFAULT_GOAL := help
SHELL := /bin/sh

PREFIX ?= /usr/local
DESTDIR ?=
LIBDIR ?= lib
PLUGINS ?= $(LIBDIR)
ARGS ?=
STEPS ?=
CARGO ?= cargo
export CARGO

.PHONY: help demo lib wheel test test-full test-cluster test-rdma test-ublk test-packages bench benchmarks-page man research site lint install dist release clean

help: ## this list
	@echo "Aquifer: memory that reaches below RAM"
	@echo
	@sed -n 's/^\([a-z-]*\):.*## /  make \1 @/p' Makefile | awk -F@ '{ printf "%-16s%s\n", $$1, $$2 }'

demo: ## sessions eight times larger than their RAM, beside kernel swap if run as root; three minutes, cleans up
	@scripts/demo.sh $(ARGS)

lib: ## the library for C programs, into build/lib
	@scripts/setup.sh
	@scripts/build-lib.sh

wheel: ## the Python package as a wheel, into build/wheels; needs python3 with venv
	@scripts/setup.sh
	@scripts/build-wheel.sh

test: ## every test in its short form, and the lint; about half an hour; STEPS="rust c" for some
	@scripts/test.sh $(STEPS)

test-full: ## the long forms too, of what is released, optimised; hours
	@scripts/test.sh --full $(STEPS)

test-cluster: ## hosts as network namespaces, whose donors are killed, stopped and cut off; RUNS=50 for many
	@scripts/build-lib.sh
	@tests/remote/cluster.sh $(RUNS)

test-rdma: ## links, donors and borrowers over RDMA, in an emulated machine; downloads a kernel
	@tests/remote/rdma.sh

test-ublk: ## a block device by ublk, in an emulated machine; downloads a kernel
	@scripts/build-lib.sh
	@tests/block/ublk.sh

test-packages: ## the Debian packages in clean roots, installed, used, upgraded, purged; as root, downloads roots
	@scripts/setup.sh
	@tests/packages/run.sh $(ARGS)

bench: ## the benchmarks, with their peers side by side; ARGS=--full for every point, hours
	@scripts/bench.sh $(ARGS)

benchmarks-page: ## docs/reference/benchmarks.md, made of the runs in bench/baseline
	@$(CARGO) run -q -p aquifer-bench -- page > target/benchmarks.md
	@mv target/benchmarks.md docs/reference/benchmarks.md

man: ## manual pages, of the command's definition and the C header; `make test` says if they are stale
	@$(CARGO) run -q -p xtask -- manual
	@AQUIFER_BLESS=1 $(CARGO) test -q -p aquifer-cli --test command -- pages

research: ## studies that settled a decision (research/): their tests, for which each runs for a moment
	@scripts/setup.sh
	$(CARGO) test -p aquifer-volume --features layered --test layered
	cd research && $(CARGO) test --release

site: ## the documents as a site with offline search, into build/site; builds mdBook once
	@scripts/site.sh

lint: ## formatting, clippy, tidy, licences of dependencies, shell scripts, documentation
	@scripts/setup.sh --lint
	@scripts/lint.sh --full

install: ## library, header, command and manual into PREFIX (default /usr/local)
	@scripts/setup.sh
	@scripts/build-lib.sh
	@scripts/install.sh "$(DESTDIR)" "$(PREFIX)" "$(LIBDIR)" "$(PLUGINS)"

dist: ## Debian packages, wheel, image, source archive, bill of materials, into build/dist; a quarter of an hour
	@scripts/setup.sh
	@scripts/dist.sh $(ARGS)

release: ## whether this commit can be released, and how; ARGS=--tag to tag it
	@scripts/release.sh $(ARGS)

clean: ## remove what the targets above have built
	$(CARGO) clean
	rm -rf build
