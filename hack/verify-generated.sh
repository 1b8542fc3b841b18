#!/usr/bin/env bash
# Fails, and shows the difference, if a generated file is not what generate.sh would write.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
fresh=$(mktemp -d)
trap 'rm -rf "$fresh"' EXIT

# The generated files under a directory.
generated() {
  (cd "$1" && find api deploy/crds docs charts test/chart/schemas -type f \( -name 'zz_generated.*' -o -name 'reprieve.dev_*.yaml' -o -name configuration.md -o -path docs/troubleshooting.md \
    -o -path 'charts/*/files/*' -o -path 'charts/*/README.md' \
    -o -path 'test/chart/schemas/kubernetes/*' -o -path 'test/chart/schemas/reprieve/*' \))
}

hack/generate.sh "$fresh"

stale=0
while IFS= read -r file; do
  # A file that is missing on either side is a difference too.
  diff -uN "$file" "$fresh/$file" || stale=1
done < <({ generated .; generated "$fresh"; } | sort -u)

if [[ $stale != 0 ]]; then
  echo "Generated files are stale. Run 'make generate'." >&2
  exit 1
fi
