#!/usr/bin/env bash
# Writes the generated files under the given directory, in the layout of the repository.
set -euo pipefail
out=$(realpath "${1:?usage: generate.sh DIR}")
cd "$(dirname "${BASH_SOURCE[0]}")/.."

controller_gen() {
  go tool -modfile=hack/tools/generate/go.mod controller-gen "$@"
}

for package in $(grep -rl --include=doc.go '+kubebuilder:object:generate=true' api | xargs -n1 dirname | sort); do
  mkdir -p "$out/$package"
  controller_gen object "paths=./$package" "output:object:dir=$out/$package"
done

mkdir -p "$out/deploy/crds"
controller_gen crd paths=./api/v1alpha1 "output:crd:dir=$out/deploy/crds"

# No marker can bound the length of the values of a ResourceList. Without a bound, the API server rejects the CEL rules
# that parse them as too expensive. The longest quantity that it writes itself has 20 characters.
sed -i -E 's/^( *)x-kubernetes-int-or-string: true$/\1maxLength: 32\n&/' "$out"/deploy/crds/reprieve.dev_*.yaml

mkdir -p "$out/docs"
go run ./hack/configdoc -out "$out/docs/configuration.md"
go run ./hack/metricsdoc -out "$out/docs/troubleshooting.md"

go run ./hack/chart -out "$out"

# Run this after the CustomResourceDefinitions, because it reads those of the repository. make verify compares both.
go run ./hack/schemas -out "$out"
