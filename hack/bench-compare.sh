#!/usr/bin/env bash
# Times decisions of another commit and of the work tree in turn, and prints how they differ.
#
#   hack/bench-compare.sh <commit> <rounds> <benchmarks>
#
# Both are built first. The order alternates from round to round, so that neither gains from a machine that warms up or
# slows down. benchstat prints the table: the medians of the rounds, and the difference in percent from the other commit
# (+10% is a ratio of 1.10), or ~ if the difference is not significant. benchstat needs at least six rounds for that.
set -euo pipefail

usage="make bench-compare BASE=<commit> [ROUNDS=<rounds>] [BENCH=<benchmarks>]"
base=${1:-} rounds=${2:-6} benchmarks=${3:-.}
if [[ -z $base ]]; then
  echo "bench-compare: no commit to compare with: $usage" >&2
  exit 2
fi
cd "$(dirname "${BASH_SOURCE[0]}")/.."
if ! commit=$(git rev-parse --verify --quiet "$base^{commit}"); then
  echo "bench-compare: $base is no commit of this repository: $usage" >&2
  exit 2
fi

dir=$(mktemp -d)
cleanup() {
  git worktree remove --force "$dir/base" 2>/dev/null || true
  rm -rf "$dir"
}
trap cleanup EXIT
git worktree add --quiet --detach "$dir/base" "$commit"

export CGO_ENABLED=0
go -C "$dir/base" test -trimpath -c -o "$dir/base.test" ./internal/core
go test -trimpath -c -o "$dir/head.test" ./internal/core

run() { # <side> <its root>
  (cd "$2/internal/core" && "$dir/$1.test" -test.run '^$' -test.bench "$benchmarks" -test.benchtime 0.5s -test.timeout 1h) \
    >> "$dir/$1.txt"
}
for round in $(seq "$rounds"); do
  echo "round $round of $rounds" >&2
  if ((round % 2)); then
    run base "$dir/base"
    run head .
  else
    run head .
    run base "$dir/base"
  fi
done

for side in base head; do
  if ! grep -q '^Benchmark' "$dir/$side.txt"; then
    echo "bench-compare: no benchmark of internal/core is called $benchmarks in $side (in make, a \$ is written \$\$)" >&2
    exit 2
  fi
done

# Percentiles are metrics of the benchmarks: lower is better, as for times.
echo "$(git describe --always "$commit") (base) and the work tree (head):"
echo
go tool -modfile=hack/tools/benchstat/go.mod benchstat "base=$dir/base.txt" "head=$dir/head.txt"
