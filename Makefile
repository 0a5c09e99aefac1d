# make run     a running leaderboard with demo boards on http://127.0.0.1:8000
# make test    every test
# make bench   what things cost, measured on this machine; PART=windows, serving, peers, history or giant for that alone
# make lint    what CI checks besides
# make web     GraphiQL, which the others build where they need it
# Everything is built in one directory outside the checkout; CARGO_TARGET_DIR moves it.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.ONESHELL:
.PHONY: run test bench lint build node web

export CARGO_TARGET_DIR ?= $(HOME)/.cache/laurel-target
API := $(CARGO_TARGET_DIR)/release/api
TOOLS := $(CARGO_TARGET_DIR)/tools
NODE_IS_NEW := node -e 'const [major, minor] = process.versions.node.split("."); process.exit(major > 20 || (major == 20 && minor >= 19) ? 0 : 1)'

# $(call install,command,Debian package,Homebrew package): installs what a command is missing from.
define install
	if ! command -v $(1) >/dev/null; then
		if command -v apt-get >/dev/null; then
			sudo=$$([ "$$(id -u)" = 0 ] || echo sudo)
			echo "installing $(2)"
			$$sudo apt-get update -qq && $$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $(2) >/dev/null
		elif command -v brew >/dev/null; then
			brew install $(3)
		else
			echo "$(1) is missing: install $(2)" >&2; exit 1
		fi
	fi
endef

# $(call tool,crate,version): installs a program of cargo's. It is built in a directory of its own, as its build would disturb ours.
define tool
	if [ "$$("$(TOOLS)/bin/$(1)" --version 2>/dev/null | awk '{ print $$NF }')" != $(2) ]; then
		echo "installing $(1) $(2)"
		cargo install --quiet --locked --version $(2) --root "$(TOOLS)" --target-dir "$(TOOLS)/target" $(1)
		rm -rf "$(TOOLS)/target"
	fi
endef

# GraphiQL, where it is missing or older than its sources. The API is built without it where this does not work out.
web:
	@if ! $(NODE_IS_NEW) 2>/dev/null || ! command -v npm >/dev/null; then
		echo "GraphiQL is left out: it needs Node.js 20.19 or newer, with npm"
	elif [ -e api/web/dist/index.html.gz ] && [ -z "$$(find api/web -name node_modules -prune -o -name dist -prune -o -type f -newer api/web/dist/index.html.gz -print)" ]; then
		:
	elif ! (cd api/web && npm ci --no-audit --no-fund && npm run build); then
		echo "GraphiQL is left out: npm could not build it"
	fi

build: web
	cargo build --release --locked -p api

run: build
	@$(call install,redis-server,redis-server,redis)
	"$(API)" demo
	exec "$(API)" serve

node:
	@$(call install,npm,nodejs npm,node)

test: node web
	@$(call install,redis-server,redis-server,redis)
	if ! command -v chromium-browser >/dev/null && ! command -v google-chrome >/dev/null; then
		$(call install,chromium,chromium,chromium)
	fi
	if [ tests/web/package-lock.json -nt tests/web/node_modules/.package-lock.json ]; then
		(cd tests/web && npm ci --no-audit --no-fund)
	fi
	if [ ! -x "$$(pg_config --bindir 2>/dev/null)/initdb" ] && ! ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1; then
		$(call install,initdb,postgresql,postgresql)
	fi
	cargo build --locked --workspace
	LAUREL_TEST_BUILT=1 cargo test --locked --workspace

bench:
	@$(call install,redis-server,redis-server,redis)
	@$(call install,wrk,wrk,wrk)
	cargo build --release --locked -p api
	case "$(PART)" in "" | history | giant) cargo build --release --locked -p analytics ;; esac
	cargo bench --locked -p tests --bench bench -- $(PART)

lint:
	@$(call tool,cargo-deny,0.20.2)
	$(call tool,cargo-machete,0.9.2)
	"$(TOOLS)/bin/cargo-deny" --log-level warn check bans licenses sources
	"$(TOOLS)/bin/cargo-machete"
	cargo fmt --check
	cargo clippy --locked --workspace --all-targets -- -D warnings
