#!/usr/bin/env bash
# Stores a small deployment of a version, for the test that goes up from it:
#
#     tests/upgrades/store.sh PROGRAMS NAME
#
# PROGRAMS is the directory of laurel and laurel-analytics. NAME.tar.gz appears beside this script:
# the data directory, and in `expected` what the version answered about it. It takes a minute.
set -euo pipefail
programs=$(realpath "$1")
here=$(realpath "$(dirname "$0")")
stored="$here/$2.tar.gz"
dir=$(mktemp -d)
server=
end() {
	if [ -n "$server" ]; then kill "$server" || true; wait "$server" || true; fi
	rm -rf "$dir"
}
trap end EXIT
cd "$dir"
mkdir expected
export LAUREL_DATA_DIR=data
PATH="$programs:$PATH"

# The scores below are older than the bound for clients, and the archive takes commits of the past:
# the first server lives in August.
cc -shared -fPIC -O2 -o clock.so "$here/../src/trial/fake_clock.c"
echo $(($(date -d 2026-08-19T12:00:00Z +%s) - $(date +%s))) >clock

serve() {
	rm -f printed
	"$@" laurel serve --listen 127.0.0.1:0 >printed 2>log &
	server=$!
	until grep -qs '^Laurel is on ' printed; do
		kill -0 "$server" || { cat log; exit 1; }
		sleep 0.1
	done
	url=$(sed -n 's/^Laurel is on //p' printed)
}

stop() {
	kill "$server"
	wait "$server"
	server=
}

# ask QUERY: prints the answer, which has no errors.
ask() {
	local answer
	answer=$(printf '%s' "$1" | tr '\n\t' '  ' | sed 's/["\\]/\\&/g; s/.*/{"query":"&"}/' |
		curl -sS -H 'Content-Type: application/json' -H "Authorization: Bearer $token" -d @- "$url/graphql")
	case "$answer" in
	*'"errors"'*) echo "$1: $answer" >&2; return 1 ;;
	*) printf '%s\n' "$answer" ;;
	esac
}

# submit BOARD: sends the scores of standard input, a line of fields each, as one batch.
submit() {
	local scores
	scores=$(sed 's/.*/{ & }/' | tr '\n' ' ')
	ask "mutation { submitScores(input: { board: \"$1\", ack: DURABLE, scores: [$scores] }) { accepted rejected } }" |
		grep -q '"rejected":0'
}

# expect BOARD WINDOW AT SEGMENT: keeps the whole of some standings.
expect() {
	local of="window: \"$2\""
	[ -z "$3" ] || of="$of, at: \"$3\""
	[ -z "$4" ] || of="$of, segment: \"$4\""
	ask "{ board(slug: \"$1\") { standings(of: { $of }) { top(first: 100) { nodes { rank score member { key } } } } } }" |
		sed 's/.*"nodes":\(\[.*\]\).*/\1/' >"expected/$(echo "$1 $2 $3 $4" | tr ' :' '_-').json"
	grep -q rank "expected/$(echo "$1 $2 $3 $4" | tr ' :' '_-').json"
}

serve env LD_PRELOAD="$dir/clock.so" FAKE_CLOCK_FILE="$dir/clock"
until [ -s data/admin-token ]; do sleep 0.1; done
token=$(cat data/admin-token)
ask 'mutation {
	total: createBoard(input: { slug: "total", shards: 4, timeZone: "Europe/London", segmentBy: ["region"],
		windows: [{ name: "daily", retain: 3 }, { name: "weekly", retain: 1 }] }) { board { slug } }
	best: createBoard(input: { slug: "best", policy: BEST, direction: LOW_FIRST, decimals: 3, maxScore: "1000",
		tieBreak: LATEST, windows: [{ name: "7d" }] })
		{ board { slug } }
	secret: createBoard(input: { slug: "secret", policy: LATEST, visibility: PRIVATE,
		windows: [{ name: "monthly" }] }) { board { slug } }
	upsertMembers(input: { members: [{ key: "m1", region: "eu" }, { key: "m2", region: "eu", name: "Zoë" }, { key: "m3", region: "us" }] })
		{ members { key } }
	addFriend(input: { member: "m1", friend: "m2" }) { friend { key } }
}' >/dev/null
for board in total best secret; do
	for day in 01 02 05 09 12; do
		for member in 1 2 3 4 5 6 7; do
			echo "member: \"m$member\", score: \"$((member * 7 % 5 + 10#$day % 3))\", eventId: \"$board-$day-$member\", at: \"2026-08-${day}T1$member:30:00Z\""
		done | submit "$board"
	done
done
for board in total best; do
	ask "mutation { removeEntry(input: { board: \"$board\", member: \"m6\" }) { removed } }" >/dev/null
done
event=$(ask '{ member(key: "m2") { events(board: "total", last: 1) { nodes { id } } } }' | sed 's/.*"id":"\([^"]*\)".*/\1/')
ask "mutation { voidEvent(input: { id: \"$event\" }) { voided } }" >/dev/null

# Seasons, attempts and decay, and members who are banned, hidden and merged.
ask 'mutation {
	createWebhook(input: { name: "all", url: "feed:all", events: [SCORE, PERIOD_ENDED, MEMBER] }) { webhook { id } }
	league: createBoard(input: { slug: "league", policy: BEST,
		windows: [{ name: "season", retain: 0 }, { name: "daily", attemptsMax: 2 }] }) { board { slug } }
	fading: createBoard(input: { slug: "fading", windows: [{ name: "decay:7d" }] }) { board { slug } }
	addSeason(input: { board: "league", name: "august", startsAt: "2026-08-01T00:00:00Z", endsAt: "2026-08-16T00:00:00Z" })
		{ season { name } }
}' >/dev/null
for board in league fading; do
	for day in 03 10; do
		for member in 1 2 3 4 5 6 7 8; do
			echo "member: \"m$member\", score: \"$((member * 3 % 8 + 10#$day))\", eventId: \"$board-$day-$member\", at: \"2026-08-${day}T1$member:30:00Z\""
		done | submit "$board"
	done
done
ask 'mutation {
	banMember(input: { member: "m5", board: "league", reason: "a bot" }) { banned }
	mergeMembers(input: { source: "m8", target: "m9" }) { merged }
	setVisibility(input: { member: "m3", visibility: HIDDEN }) { member { key } }
}' >/dev/null
stop

# Half of the history goes to the archive; the rest comes later.
serve
laurel seal
laurel archive --before 2026-08-20 --board total
echo 'member: "m7", score: "3", eventId: "late"' | submit total
laurel token create --scope submit --member m1 | tail -1 >expected/token
for day in 02 12; do
	expect total daily "2026-08-${day}T12:00:00Z" ''
	expect secret monthly "2026-08-${day}T12:00:00Z" ''
done
expect total all '' ''
expect total all '' region:eu
expect best all '' ''
expect secret all '' ''
expect league all '' ''
expect league season 2026-08-10T12:00:00Z ''
expect league daily 2026-08-03T12:00:00Z ''
stop
laurel diff
cp data/admin-token expected/admin-token
laurel --version >expected/version
tar -C "$dir" -czf "$stored" --exclude='*.sock' data expected
ls -l "$stored"
